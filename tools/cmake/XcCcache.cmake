# Compiles through ccache when it is installed. Paths below the source directory are hashed relative to
# it, so several checkouts share their results; the sloppiness settings are what a precompiled header
# needs (ccache manual, "Precompiled headers").
#
# Depend mode, because a result must come from the very bytes of every header. The other way compares
# preprocessed text, which has no comments: after a change of comments alone it restores a precompiled
# header of the old bytes, and gcc, which knows a header of `#pragma once` by its bytes, then reads that
# header a second time ("redefinition of ..."). The namespace leaves behind results kept the other way.
find_program(XC_CCACHE ccache)
mark_as_advanced(XC_CCACHE)
if(XC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(xc_ccache_launcher
      "${CMAKE_COMMAND}" -E env
      "CCACHE_NAMESPACE=xc-depend"
      "CCACHE_DEPEND=1"
      "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}"
      "CCACHE_NOHASHDIR=1"
      "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
      "${XC_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER ${xc_ccache_launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${xc_ccache_launcher})
endif()
