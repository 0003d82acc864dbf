# Finds what xc is built from. Each failure names its cure; tools/setup.sh installs all of it on Debian.

# tools/setup.sh unpacks oneDNN here where the distribution's is older than 3.
list(APPEND CMAKE_PREFIX_PATH "${CMAKE_SOURCE_DIR}/.deps/onednn")

macro(xc_require package debian_name)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found. Run tools/setup.sh, or install ${debian_name} "
                        "(or your distribution's package of it) and configure again.")
  endif()
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

find_package(fmt CONFIG QUIET)
xc_require(fmt libfmt-dev)
find_package(nlohmann_json CONFIG QUIET)
xc_require(nlohmann_json nlohmann-json3-dev)
find_package(dnnl 3 CONFIG QUIET)
xc_require(dnnl "oneDNN 3 or newer (Debian 13: libdnnl-dev; Debian 12: tools/setup.sh fetches it into .deps)")

# Header-only libraries without a CMake configuration.
function(xc_find_header target header debian_name)
  string(MAKE_C_IDENTIFIER "XC_${header}_DIR" variable)
  find_path(${variable} ${header} PATH_SUFFIXES ${ARGN})
  mark_as_advanced(${variable})
  if(NOT ${variable})
    message(FATAL_ERROR "${header} was not found. Run tools/setup.sh, or install ${debian_name}.")
  endif()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE "${${variable}}")
endfunction()
xc_find_header(protozero::protozero protozero/pbf_reader.hpp libprotozero-dev)
xc_find_header(xxhash::xxhash xxhash.h libxxhash-dev)
xc_find_header(xc_kissfft kissfft/kissfft.hh libkissfft-dev)
# Shared: the archives that distributions ship are not position-independent.
function(xc_find_library target header library debian_name)
  xc_find_header(${target} ${header} ${debian_name} ${ARGN})
  string(MAKE_C_IDENTIFIER "XC_${library}_LIBRARY" variable)
  find_library(${variable} ${library})
  mark_as_advanced(${variable})
  if(NOT ${variable})
    message(FATAL_ERROR "lib${library} was not found. Run tools/setup.sh, or install ${debian_name}.")
  endif()
  target_link_libraries(${target} INTERFACE "${${variable}}")
endfunction()
xc_find_library(xc_re2 re2/re2.h re2 libre2-dev)
xc_find_library(xc_utf8proc utf8proc.h utf8proc libutf8proc-dev)
xc_find_header(xc_cli11 CLI/CLI.hpp libcli11-dev)
# .npz files in tools.
xc_find_library(xc_minizip minizip/unzip.h minizip libminizip-dev)
if(XC_TESTS)
  xc_find_header(xc_doctest doctest/doctest.h doctest-dev)
endif()

# oneDNN keeps its threads in OpenMP; xc saves and restores the caller's setting. GNU's, whichever compiler
# builds xc: it is the one that oneDNN is linked to.
add_library(xc_openmp INTERFACE)
find_package(OpenMP QUIET COMPONENTS CXX)
find_library(XC_GOMP NAMES libgomp.so.1)
mark_as_advanced(XC_GOMP)
if(OpenMP_gomp_LIBRARY)
  target_link_libraries(xc_openmp INTERFACE "${OpenMP_gomp_LIBRARY}")
elseif(XC_GOMP)
  target_link_libraries(xc_openmp INTERFACE "${XC_GOMP}")
endif()

if(XC_JIT)
  # 19.1, not 19: LLVM's version file accepts only the same major.minor.
  find_package(LLVM 19.1 CONFIG QUIET HINTS /usr/lib/llvm-19)
  if(NOT LLVM_FOUND)
    message(FATAL_ERROR "LLVM 19.1 was not found. Run tools/setup.sh, or install llvm-19-dev (with "
                        "zlib1g-dev and libzstd-dev), or configure with -DXC_JIT=OFF: xc then runs "
                        "on vendor and ahead-of-time kernels alone.")
  endif()
endif()

# ptxas assembles the emitted PTX in tests; nothing else needs the CUDA toolkit.
find_program(XC_PTXAS ptxas HINTS /usr/local/cuda/bin ENV CUDA_HOME PATH_SUFFIXES bin)
mark_as_advanced(XC_PTXAS)
