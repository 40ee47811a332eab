# nestor_library(NAME [PATTERN...]): a static library of the sources of the current folder (default *.c).
# A folder that has no source yet gives an empty library, so that every target exists from the first day.
function(nestor_library name)
  set(patterns ${ARGN})
  if(NOT patterns)
    set(patterns "*.c")
  endif()
  list(TRANSFORM patterns PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  list(FILTER sources EXCLUDE REGEX "/runtime/compile[^/]*\\.c$") # the driver: see nestor_driver in runtime/
  set(empty "${CMAKE_CURRENT_BINARY_DIR}/${name}_empty.c")
  if(NOT EXISTS "${empty}")
    file(WRITE "${empty}" "typedef int ${name}_has_no_source_yet;\n")
  endif()
  add_library(${name} STATIC ${sources} "${empty}")
endfunction()
