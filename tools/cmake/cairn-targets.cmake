# SPDX-License-Identifier: Apache-2.0
# The targets of cairn, for find_package and for add_subdirectory. `cairn_include` is the folder of the
# headers, `cairn_FIND_COMPONENTS` has the leaves that are wanted: mpi, cuda, nccl.
include(CMakeFindDependencyMacro)
unset(cairn_NOT_FOUND_MESSAGE) # of a find_package that failed
# Boost's own package file if there is one; otherwise CMake's FindBoost, which newer CMakes lack.
if(NOT TARGET Boost::headers)
  find_package(Boost 1.81 QUIET CONFIG)
endif()
if(NOT TARGET Boost::headers)
  find_dependency(Boost 1.81)
endif()
find_dependency(Threads)
find_dependency(ZLIB)

# libdeflate has a CMake package file since 1.15, zstd where it was built by CMake; otherwise pkg-config finds them.
set(cairn_codecs)
foreach(cairn_codec IN ITEMS libdeflate libzstd)
  string(REPLACE libzstd zstd cairn_package ${cairn_codec})
  find_package(${cairn_package} QUIET CONFIG)
  if(TARGET ${cairn_package}::${cairn_codec}_shared)
    list(APPEND cairn_codecs ${cairn_package}::${cairn_codec}_shared)
  elseif(TARGET ${cairn_package}::${cairn_codec}_static)
    list(APPEND cairn_codecs ${cairn_package}::${cairn_codec}_static)
  else()
    find_dependency(PkgConfig)
    pkg_check_modules(cairn_${cairn_codec}_pc QUIET IMPORTED_TARGET ${cairn_codec})
    if(NOT TARGET PkgConfig::cairn_${cairn_codec}_pc)
      set(cairn_FOUND FALSE)
      set(cairn_NOT_FOUND_MESSAGE
        "cairn needs ${cairn_codec} (Debian: ${cairn_codec}-dev), by its CMake file or by pkg-config")
      return()
    endif()
    list(APPEND cairn_codecs PkgConfig::cairn_${cairn_codec}_pc)
  endif()
endforeach()

# cairn together with what a leaf includes. The targets that users name are imported: a library that links to them can
# be exported, and a project that imports the library finds its own cairn.
foreach(cairn_leaf IN LISTS cairn_FIND_COMPONENTS)
  set(cairn_needs)
  if(cairn_leaf STREQUAL "mpi")
    find_package(MPI 3.0 QUIET COMPONENTS CXX)
    set(cairn_needs MPI::MPI_CXX)
  elseif(cairn_leaf MATCHES "^(cuda|nccl)$")
    find_package(CUDAToolkit 11.4 QUIET) # CMake 3.17
    set(cairn_needs CUDA::cudart)
  endif()
  if(cairn_leaf STREQUAL "nccl")
    # NCCL has no package file. CAIRN_NCCL has include/ and lib/, as NVIDIA's wheel, which has no libnccl.so.
    find_path(CAIRN_NCCL_INCLUDE nccl.h HINTS ENV CAIRN_NCCL ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
    find_library(CAIRN_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ENV CAIRN_NCCL ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib)
    if(NOT CAIRN_NCCL_INCLUDE OR NOT CAIRN_NCCL_LIBRARY)
      set(cairn_needs)
    endif()
  endif()
  if(cairn_needs AND TARGET ${cairn_needs})
    set(cairn_${cairn_leaf}_FOUND TRUE)
    if(NOT TARGET cairn::${cairn_leaf})
      add_library(cairn_${cairn_leaf} INTERFACE)
      target_link_libraries(cairn_${cairn_leaf} INTERFACE cairn_compiled ${cairn_needs})
      if(cairn_leaf STREQUAL "nccl")
        target_include_directories(cairn_nccl SYSTEM INTERFACE "${CAIRN_NCCL_INCLUDE}")
        target_link_libraries(cairn_nccl INTERFACE "${CAIRN_NCCL_LIBRARY}")
      endif()
      add_library(cairn::${cairn_leaf} INTERFACE IMPORTED GLOBAL)
      target_link_libraries(cairn::${cairn_leaf} INTERFACE cairn_${cairn_leaf})
    endif()
  elseif(cairn_FIND_REQUIRED_${cairn_leaf})
    set(cairn_FOUND FALSE)
    set(cairn_NOT_FOUND_MESSAGE "cairn::${cairn_leaf}: what it needs was not found, or cairn has no such component")
  endif()
endforeach()

if(NOT TARGET cairn::cairn AND NOT cairn_NOT_FOUND_MESSAGE)
  add_library(cairn_header_only INTERFACE)
  target_include_directories(cairn_header_only SYSTEM INTERFACE "${cairn_include}")
  target_compile_features(cairn_header_only INTERFACE cxx_std_20)
  target_link_libraries(cairn_header_only INTERFACE
    Boost::headers Threads::Threads ZLIB::ZLIB ${cairn_codecs})

  # The code that needs no type of the program's, compiled once in this build tree, with its flags, if a target needs it.
  set(cairn_list "${cairn_include}/cairn/src.hpp")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${cairn_list}")
  file(STRINGS "${cairn_list}" cairn_units REGEX "^#define CAIRN_SRC_UNITS ")
  string(REGEX REPLACE "[^0-9]" "" cairn_units "${cairn_units}")
  add_library(cairn_compiled STATIC EXCLUDE_FROM_ALL)
  foreach(UNIT RANGE 1 ${cairn_units})
    set(cairn_unit "${CMAKE_CURRENT_BINARY_DIR}/cairn_compiled/cairn-${UNIT}.cpp")
    configure_file("${CMAKE_CURRENT_LIST_DIR}/cairn-unit.cpp.in" "${cairn_unit}" @ONLY)
    target_sources(cairn_compiled PRIVATE "${cairn_unit}")
  endforeach()
  target_compile_definitions(cairn_compiled PUBLIC CAIRN_SEPARATE_COMPILATION)
  target_link_libraries(cairn_compiled PUBLIC cairn_header_only)
  # Warnings of a newer compiler are not for cairn's users to fix. -O3 would take twice as long as -O2, which suffices
  # for code that waits for storage. A single unit would take more memory than some machines have.
  target_compile_options(cairn_compiled PRIVATE -w $<$<OR:$<CONFIG:Release>,$<CONFIG:>>:-O2>)
  set_target_properties(cairn_compiled PROPERTIES UNITY_BUILD OFF CXX_CLANG_TIDY "" CXX_SCAN_FOR_MODULES OFF
    POSITION_INDEPENDENT_CODE ON)
  add_library(cairn::cairn INTERFACE IMPORTED GLOBAL)
  target_link_libraries(cairn::cairn INTERFACE cairn_compiled)
  add_library(cairn::header_only INTERFACE IMPORTED GLOBAL)
  target_link_libraries(cairn::header_only INTERFACE cairn_header_only)
endif()

foreach(cairn_variable IN ITEMS include codecs codec package list unit units leaf needs)
  unset(cairn_${cairn_variable})
endforeach()
unset(cairn_variable)
