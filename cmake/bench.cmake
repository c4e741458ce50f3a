# SPDX-License-Identifier: Apache-2.0
# Each bench/*.c is a program bench_<name>. They compare with OpenBLAS, so they are part of the
# default build only where it is found, and only in a release build: other clocks mean nothing.
file(GLOB bench_sources CONFIGURE_DEPENDS bench/*.c)
if(NOT bench_sources OR NOT CMAKE_BUILD_TYPE STREQUAL Release)
  return()
endif()
pkg_check_modules(openblas IMPORTED_TARGET openblas)
foreach(source IN LISTS bench_sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(bench_${name} ${source})
  target_link_libraries(bench_${name} PRIVATE ${rooms_so_far})
  if(openblas_FOUND)
    target_link_libraries(bench_${name} PRIVATE PkgConfig::openblas)
    target_compile_definitions(bench_${name} PRIVATE HAVE_OPENBLAS=1)
  else()
    set_target_properties(bench_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endforeach()
