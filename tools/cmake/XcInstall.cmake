# What `cmake --install` leaves: headers, libraries, the tool, and the two ways to find them,
# find_package(xc) and pkg-config. Everything is relocatable.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/xc DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" OPTIONAL)
install(TARGETS xcrt EXPORT xcTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET xcrt-image)
  install(TARGETS xcrt-image LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" NAMELINK_SKIP)
endif()
if(TARGET xcrt-jit)
  install(TARGETS xcrt-jit LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" NAMELINK_SKIP)
endif()
if(TARGET xc)
  install(TARGETS xc RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

# oneDNN from .deps belongs to no package manager, so it goes beside the library that needs it.
if(xc_dnnl_dir)
  get_target_property(xc_dnnl_soname DNNL::dnnl IMPORTED_SONAME_RELEASE)
  install(CODE "file(RPATH_CHANGE FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:xcrt>\"
                     OLD_RPATH \"\\\$ORIGIN:${xc_dnnl_dir}\" NEW_RPATH \"\\\$ORIGIN\")")
  install(PROGRAMS "${xc_dnnl_library}" DESTINATION "${CMAKE_INSTALL_LIBDIR}"
          RENAME "${xc_dnnl_soname}")
  install(DIRECTORY "${CMAKE_SOURCE_DIR}/.deps/onednn/share/doc/onednn"
          DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/xc")
endif()

set(xc_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/xc")
install(EXPORT xcTargets NAMESPACE xc:: DESTINATION "${xc_cmake_dir}")
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/xcConfig.cmake" @ONLY CONTENT
"# find_package(xc) -> xc::xcrt
include(\"\${CMAKE_CURRENT_LIST_DIR}/xcTargets.cmake\")
")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/xcConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/xcConfig.cmake" "${CMAKE_BINARY_DIR}/xcConfigVersion.cmake"
        DESTINATION "${xc_cmake_dir}")

# pcfiledir is <prefix>/<libdir>/pkgconfig; the way back up depends on the depth of libdir.
file(RELATIVE_PATH xc_pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" xc_pc_prefix "${xc_pc_prefix}")
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/xc.pc" @ONLY CONTENT
"prefix=\${pcfiledir}/@xc_pc_prefix@
includedir=\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
libdir=\${prefix}/@CMAKE_INSTALL_LIBDIR@

Name: xc
Description: @PROJECT_DESCRIPTION@
Version: @PROJECT_VERSION@
Cflags: -I\${includedir}
Libs: -L\${libdir} -lxcrt
")
install(FILES "${CMAKE_BINARY_DIR}/xc.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
