# Language, warnings, sanitizers and where the outputs go.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_C_FLAGS_DEBUG "-O1 -g")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")

# -ffp-contract=off: a*b + c rounds twice unless the source says fma(); folding and the interpreter depend on it.
add_compile_options(-Wall -Wextra -Wpedantic -Werror -ffp-contract=off -fno-math-errno)
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_definitions(NST_DEBUG=1) # verifier after each pass and other costly internal checks
endif()

set(NESTOR_SANITIZE "" CACHE STRING "Sanitizers of all code, as -fsanitize= takes them; empty for none")
if(NESTOR_SANITIZE)
  add_compile_options(-fsanitize=${NESTOR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${NESTOR_SANITIZE})
endif()

# About eighty test programs link the whole engine: mold takes a tenth of the time of ld.
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

option(NESTOR_FUZZ "Build tests/fuzz; needs clang" OFF)
if(NESTOR_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

include_directories("${CMAKE_SOURCE_DIR}" "${CMAKE_SOURCE_DIR}/include")

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/static")
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON) # exactly this path, and none of the build machine's
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
