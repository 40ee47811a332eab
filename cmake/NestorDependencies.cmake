# LLVM 19, protobuf-c and xxHash as imported targets.  Criterion is found by tests/.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(protobuf-c REQUIRED IMPORTED_TARGET libprotobuf-c)
find_program(PROTOC_C protoc-c REQUIRED)

find_program(LLVM_CONFIG NAMES llvm-config-19 REQUIRED)
execute_process(COMMAND "${LLVM_CONFIG}" --includedir OUTPUT_VARIABLE llvm_include
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${LLVM_CONFIG}" --libdir OUTPUT_VARIABLE llvm_libdir
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_library(LLVM_LIBRARY NAMES LLVM-19 HINTS "${llvm_libdir}" REQUIRED NO_DEFAULT_PATH)
add_library(LLVM::C INTERFACE IMPORTED)
target_include_directories(LLVM::C SYSTEM INTERFACE "${llvm_include}")
target_link_libraries(LLVM::C INTERFACE "${LLVM_LIBRARY}")
