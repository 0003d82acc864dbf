# Compiles through ccache when it is installed. Paths below the source directory are hashed relative to
# it, so several checkouts share their results; the slopiness settings are what a precompiled header
# needs (ccache manual, "Precompiled headers").
find_program(XC_CCACHE ccache)
mark_as_advanced(XC_CCACHE)
if(XC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(xc_ccache_launcher
      "${CMAKE_COMMAND}" -E env
      "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}"
      "CCACHE_NOHASHDIR=1"
      "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
      "${XC_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER ${xc_ccache_launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${xc_ccache_launcher})
endif()
