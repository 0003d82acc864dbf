# The two libraries users have, and the bundle the tests link.

# Within what the ABI is compatible (xc/version.h): the SOVERSION of all libraries.
set(xc_abi_version ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  string(APPEND xc_abi_version ".${PROJECT_VERSION_MINOR}")
endif()

set(xc_folders base tensor loop ir ops passes formats backends plan profile runtime cache tier)

# xc_link_group(variable folder...): the archives of these folders as one group, within which the linker
# resolves references in any direction, and the interface libraries of folders without sources.
function(xc_link_group variable)
  set(archives "")
  set(interfaces "")
  foreach(name ${ARGN})
    get_target_property(type ${name} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND archives ${name})
    else()
      list(APPEND interfaces ${name})
    endif()
  endforeach()
  list(JOIN archives "," joined)
  set(${variable} "$<LINK_GROUP:RESCAN,${joined}>" ${interfaces} PARENT_SCOPE)
endfunction()
list(TRANSFORM xc_folders PREPEND xc_)
xc_link_group(xc_all_folders ${xc_folders})

# Stands in while capi/ has no sources.
set(xc_empty_source "${CMAKE_BINARY_DIR}/empty.cpp")
file(GENERATE OUTPUT "${xc_empty_source}" CONTENT "")

# xcrt: the C boundary as objects, the rest from the archives it refers to.
xc_sources(xc_capi_sources capi *.cpp)
if(NOT xc_capi_sources)
  set(xc_capi_sources "${xc_empty_source}")
endif()
add_library(xc_capi OBJECT ${xc_capi_sources})
target_link_libraries(xc_capi PRIVATE xc_options)
target_include_directories(xc_capi PRIVATE "${CMAKE_SOURCE_DIR}")
target_compile_definitions(xc_capi PRIVATE XC_BUILDING_LIBRARY=1)
xc_precompile(xc_capi capi/handles.h)

set(xc_exports "")
set(xc_exports_file "${CMAKE_SOURCE_DIR}/capi/exports.txt")
if(EXISTS "${xc_exports_file}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${xc_exports_file}")
  file(STRINGS "${xc_exports_file}" xc_exports REGEX "^[A-Za-z_]")
endif()

add_library(xcrt SHARED $<TARGET_OBJECTS:xc_capi> src/base/immortal.cpp)
add_library(xc::xcrt ALIAS xcrt)
target_link_libraries(xcrt PRIVATE xc_options ${xc_all_folders})
target_include_directories(xcrt INTERFACE "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>"
                                          "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
set_target_properties(xcrt PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${xc_abi_version}
                                      LINKER_LANGUAGE CXX)
xc_version_script(xcrt ${xc_exports})
# Closing it leaves it where it is: threads may be inside, and what is made once per process would be made again.
target_link_options(xcrt PRIVATE -Wl,-z,nodelete)
get_target_property(xc_dnnl_library DNNL::dnnl IMPORTED_LOCATION_RELEASE)
string(FIND "${xc_dnnl_library}" "${CMAKE_SOURCE_DIR}/.deps/" position)
set(xc_dnnl_dir "")  # where no package manager has put it
if(position EQUAL 0)
  get_filename_component(xc_dnnl_dir "${xc_dnnl_library}" DIRECTORY)
endif()
xc_set_installed_rpath(xcrt ${xc_dnnl_dir})

# xcrt-jit: the only library that contains LLVM. It exports one C table and is opened at the first
# compile.
xc_sources(xc_codegen_sources src/codegen *.cpp)
list(FILTER xc_codegen_sources EXCLUDE REGEX "/write_library\\.cpp$")  # a program of the build
if(XC_JIT AND xc_codegen_sources)
  set(components orcjit passes)
  foreach(target X86 AArch64 NVPTX)
    if(target IN_LIST LLVM_TARGETS_TO_BUILD)
      list(APPEND components ${target})
    endif()
  endforeach()
  llvm_map_components_to_libnames(xc_llvm_libs ${components})

  add_library(xc_llvm INTERFACE)
  target_include_directories(xc_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
  separate_arguments(xc_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  target_compile_definitions(xc_llvm INTERFACE ${xc_llvm_definitions})
  target_link_libraries(xc_llvm INTERFACE ${xc_llvm_libs})

  # Objects, not an archive: --exclude-libs hides what comes from archives.
  add_library(xc_codegen OBJECT ${xc_codegen_sources})
  target_link_libraries(xc_codegen PRIVATE xc_options PUBLIC xc_llvm)
  xc_precompile(xc_codegen codegen/emitter.h)

  # What it compiles ahead, functions that kernels call: build/generated/library_objects.cpp.
  xc_link_group(xc_codegen_folders xc_base xc_tensor xc_loop)
  add_executable(xc_codegen_library src/codegen/write_library.cpp $<TARGET_OBJECTS:xc_codegen>)
  target_link_libraries(xc_codegen_library PRIVATE xc_options xc_llvm ${xc_codegen_folders})
  set(xc_library_source "${CMAKE_BINARY_DIR}/generated/library_objects.cpp")
  add_custom_command(OUTPUT "${xc_library_source}"
                     COMMAND xc_codegen_library "${xc_library_source}"
                     DEPENDS xc_codegen_library VERBATIM)

  add_library(xcrt-jit SHARED $<TARGET_OBJECTS:xc_codegen> "${xc_library_source}"
                              src/base/immortal.cpp)
  target_link_libraries(xcrt-jit PRIVATE xc_options xc_llvm ${xc_codegen_folders})
  set_target_properties(xcrt-jit PROPERTIES LINKER_LANGUAGE CXX)
  set_target_properties(xcrt-jit PROPERTIES VERSION ${PROJECT_VERSION}
                                            SOVERSION ${xc_abi_version})
  xc_version_script(xcrt-jit xc_jit_api)
  target_link_options(xcrt-jit PRIVATE -Wl,-z,nodelete)
  xc_set_installed_rpath(xcrt-jit)
  set(XC_HAVE_JIT ON)
else()
  set(XC_HAVE_JIT OFF)
endif()

# xc_internal: everything of xcrt, unhidden, for the tests.
add_library(xc_capi_archive STATIC $<TARGET_OBJECTS:xc_capi>)
set_target_properties(xc_capi_archive PROPERTIES LINKER_LANGUAGE CXX)
add_library(xc_internal INTERFACE)
target_include_directories(xc_internal INTERFACE "${CMAKE_SOURCE_DIR}")
xc_link_group(xc_internal_folders xc_capi_archive ${xc_folders})
target_link_libraries(xc_internal INTERFACE xc_options ${xc_internal_folders}
                                            nlohmann_json::nlohmann_json)
