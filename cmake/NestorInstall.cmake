# What `cmake --install` puts where: headers, the two libraries, the tool, a pkg-config file and a CMake package.  The installed
# tree may be moved: nothing in it holds its own path.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(DIRECTORY include/nestor DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(TARGETS nestor nestor-compiler EXPORT NestorTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(TARGETS nestor-tool RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
target_include_directories(nestor INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

set(package "${CMAKE_INSTALL_LIBDIR}/cmake/Nestor")
install(EXPORT NestorTargets NAMESPACE Nestor:: DESTINATION "${package}")
file(WRITE "${CMAKE_BINARY_DIR}/NestorConfig.cmake" "include(\"\${CMAKE_CURRENT_LIST_DIR}/NestorTargets.cmake\")\n")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/NestorConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/NestorConfig.cmake" "${CMAKE_BINARY_DIR}/NestorConfigVersion.cmake"
        DESTINATION "${package}")

file(RELATIVE_PATH to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/nestor.pc.in "${CMAKE_BINARY_DIR}/nestor.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/nestor.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
