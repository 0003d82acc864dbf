# Flags of all our targets, as the interface library xc_options.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

foreach(lang C CXX)
  set(CMAKE_${lang}_FLAGS_DEBUG "-O1 -g")
  # In sections of their own the linker leaves out functions that nothing calls.
  set(CMAKE_${lang}_FLAGS_RELEASE "-O2 -DNDEBUG -ffunction-sections -fdata-sections")
endforeach()

add_library(xc_options INTERFACE)
target_include_directories(xc_options INTERFACE "${CMAKE_SOURCE_DIR}/include"
                                                "${CMAKE_SOURCE_DIR}/src")
target_compile_definitions(xc_options INTERFACE FMT_HEADER_ONLY=1)
target_compile_options(xc_options INTERFACE
  -Wall -Wextra -Wconversion
  # One meaning of floating point everywhere: no contraction that a call site did not write, no errno.
  -fno-math-errno -ffp-contract=off
  -fno-semantic-interposition
  # gcc 12 drops two roundings of doubles to float that stand side by side: `a = float(a); b = float(b);` as a vector of
  # two is two copies. Kernels' vectors are written out.
  $<$<CXX_COMPILER_ID:GNU>:-fno-tree-slp-vectorize>
  # What gcc does not count as a conversion, and sorting in libstdc++ 12 as clang sees it.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion -Wno-deprecated-declarations>
  $<$<BOOL:${XC_WERROR}>:-Werror>)

# The persistent cache tells builds apart by it; not every compiler asks for one by itself.
target_link_options(xc_options INTERFACE -Wl,--build-id=sha1)

if(XC_SANITIZE)
  # Lines are all that a report shows. -O1 for tests, too: -O0 halves the time they take to compile and doubles that of
  # their runs, in which functions of headers are theirs.
  set(xc_sanitize_flags -fsanitize=${XC_SANITIZE} -fno-omit-frame-pointer -g1)
  if(XC_SANITIZE MATCHES "undefined")
    # Null, dangling and stray pointers are the address sanitizer's; checked twice they double the time of a build.
    # Weights mapped from a file may lie anywhere (BoundKernel::any_address).
    list(APPEND xc_sanitize_flags -fno-sanitize-recover=undefined
                -fno-sanitize=null,object-size,vptr,alignment,pointer-overflow)
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Code made at run time has none of the marks that clang looks for in front of functions. The macros are gcc's.
    list(APPEND xc_sanitize_flags -fno-sanitize=function)
    foreach(kind address thread)
      if(XC_SANITIZE MATCHES "${kind}")
        string(TOUPPER "${kind}" name)
        list(APPEND xc_sanitize_flags -D__SANITIZE_${name}__=1)
      endif()
    endforeach()
  endif()
  if(XC_FUZZ)
    list(APPEND xc_sanitize_flags -fsanitize=fuzzer-no-link)
  endif()
  # Checks of the address sanitizer as calls, for kernels of vectors: inline they come in the thousands, and such a file
  # takes two to three times as long to compile.
  if(XC_SANITIZE MATCHES "address")
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      set(xc_outlined_checks -mllvm -asan-instrumentation-with-call-threshold=0)
    else()
      set(xc_outlined_checks --param asan-instrumentation-with-call-threshold=0)
    endif()
  endif()
  target_compile_options(xc_options INTERFACE ${xc_sanitize_flags})
  target_link_options(xc_options INTERFACE ${xc_sanitize_flags})
  # Every test program links all of xc, and LLVM comes as archives.
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    include(CheckLinkerFlag)
    check_linker_flag(CXX -fuse-ld=lld XC_LLD)
    if(XC_LLD)
      add_link_options(-fuse-ld=lld)
    endif()
  endif()
endif()

# fmt compiled once (src/base/fmt_extern.h) where its declaration suits the installed version.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -std=c++20)
set(CMAKE_REQUIRED_DEFINITIONS -DFMT_HEADER_ONLY=1 -DXC_FMT_EXTERN=1)
set(CMAKE_REQUIRED_INCLUDES "${CMAKE_SOURCE_DIR}/src")
set(CMAKE_REQUIRED_QUIET ON)
check_cxx_source_compiles("#include \"base/fmt_extern.cpp\"\nint main() { return 0; }" XC_FMT_EXTERN)
unset(CMAKE_REQUIRED_FLAGS)
unset(CMAKE_REQUIRED_DEFINITIONS)
unset(CMAKE_REQUIRED_INCLUDES)
unset(CMAKE_REQUIRED_QUIET)
if(XC_FMT_EXTERN)
  target_compile_definitions(xc_options INTERFACE XC_FMT_EXTERN=1)
endif()

# Precompiled headers: of the standard library for the low folders, and of their own central headers for the others
# (half of a build is parsing). Every user has the same flags as the target that builds it, or the compiler refuses it.
set(xc_pch_headers <base/fmt_extern.h> <functional> <memory> <optional> <span> <string> <unordered_map>
                   <variant> <vector>)

# xc_use_pch(target pch_target): takes the headers precompiled by pch_target.
function(xc_use_pch target pch)
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

# xc_precompile(target header...): these headers, and those of the standard library, precompiled for one target.
function(xc_precompile target)
  set(headers ${xc_pch_headers})
  foreach(header ${ARGN})
    list(APPEND headers "<${header}>")
  endforeach()
  xc_precompiled_headers(${target} ${headers})
endfunction()

# xc_make_pch(name header...): a target that only builds a precompiled header.
function(xc_make_pch name)
  file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/pch/${name}.cpp" CONTENT "")
  add_library(${name} OBJECT "${CMAKE_BINARY_DIR}/pch/${name}.cpp")
  target_link_libraries(${name} PRIVATE xc_options)
  xc_precompiled_headers(${name} ${ARGN})
endfunction()

# xc_precompiled_headers(target header...): these and no others.
function(xc_precompiled_headers target)
  foreach(header ${ARGN})
    # The angle brackets would close the generator expression.
    string(REPLACE ">" "$<ANGLE-R>" header "${header}")
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  endforeach()
endfunction()

xc_make_pch(xc_pch ${xc_pch_headers})
set(xc_small_flags $<$<CONFIG:Release>:-Os>)
xc_make_pch(xc_small_pch ${xc_pch_headers})
target_compile_options(xc_small_pch PRIVATE ${xc_small_flags})

# xc_set_isa(file...): sources named *_avx512.cpp, *_vnni.cpp (that and dot products of bytes), *_amx.cpp (that and
# matrix units for bf16) and *_avx2.cpp are compiled for that instruction set; their callers ask base/cpu_info before they call. Everything else keeps the
# baseline; what is a third version beside those, *_baseline.cpp, is optimised for size. Elementwise operators on
# integers wrap.
function(xc_set_isa)
  foreach(file ${ARGN})
    if(file MATCHES "_(avx512|vnni|amx)\\.cpp$")
      set(flags -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mavx2 -mf16c)
      if(file MATCHES "_vnni\\.cpp$")
        list(APPEND flags -mavx512vnni)
      elseif(file MATCHES "_amx\\.cpp$")
        list(APPEND flags -mamx-tile -mamx-bf16)
      endif()
    elseif(file MATCHES "_avx2\\.cpp$")
      set(flags -mavx2 -mfma -mf16c)
    elseif(file MATCHES "_baseline\\.cpp$" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      set(flags ${xc_small_flags})
    else()
      set(flags "")
    endif()
    if(file MATCHES "/elementwise_(avx512|avx2|baseline)\\.cpp$")
      list(APPEND flags -fwrapv)
    endif()
    if(file MATCHES "_(avx512|vnni|amx|avx2|baseline)\\.cpp$")
      list(APPEND flags ${xc_outlined_checks})
    endif()
    if(NOT flags)
      continue()
    endif()
    set_source_files_properties("${file}" PROPERTIES COMPILE_OPTIONS "${flags}"
                                                     SKIP_PRECOMPILE_HEADERS ON)
  endforeach()
endfunction()
