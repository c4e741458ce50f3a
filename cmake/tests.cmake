# SPDX-License-Identifier: Apache-2.0
# Every test runs from the top of the sources, with HEALD naming the command under test. A C test is
# linked to the highest room that it includes (and so to all before it), or to every room if none.

set(test_env HEALD=${PROJECT_BINARY_DIR}/heald CMOCKA_MESSAGE_OUTPUT=TAP
  HEALD_CACHE_DIR=${PROJECT_BINARY_DIR}/test-cache)

function(heald_link_rooms target source)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(STRINGS ${source} includes REGEX "^#include \"[a-z]+/")
  list(TRANSFORM includes REPLACE "^#include \"([a-z]+)/.*" "\\1")
  set(top "")
  foreach(room IN LISTS HEALD_ROOMS)
    if(room IN_LIST includes AND TARGET heald_${room})
      set(top heald_${room})
    endif()
  endforeach()
  if(NOT top)
    set(top ${rooms_so_far})
  endif()
  target_link_libraries(${target} PRIVATE ${top})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/tests)
endfunction()

function(heald_register name label)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${test_env}" LABELS ${label}
    SKIP_RETURN_CODE 77 TIMEOUT 600)
endfunction()

# ---- C tests -------------------------------------------------------------------------------------
file(GLOB unit_sources CONFIGURE_DEPENDS tests/unit/test_*.c tests/property/test_*.c)
if(HEALD_TESTS AND unit_sources)
  pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)
  foreach(source IN LISTS unit_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    heald_link_rooms(${name} ${source})
    target_link_libraries(${name} PRIVATE PkgConfig::cmocka)
    heald_register(${name} unit ${name})
  endforeach()
endif()

# ---- fuzz targets: libFuzzer with preset fuzz, else a replay of the corpus -------------------------
file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(source IN LISTS fuzz_sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  heald_link_rooms(${name} ${source})
  if(HEALD_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.c)
    string(REGEX REPLACE "^fuzz_" "" corpus ${name})
    heald_register(${name} fuzz ${name} tests/fuzz/corpus/${corpus})
  endif()
endforeach()

# ---- the command, as users see it ------------------------------------------------------------------
if(HEALD_TESTS AND TARGET heald)
  heald_register(golden golden tools/run_golden.sh)
  file(GLOB cli_scripts CONFIGURE_DEPENDS tests/cli/*.sh)
  foreach(script IN LISTS cli_scripts)
    get_filename_component(name ${script} NAME_WE)
    heald_register(cli_${name} cli bash ${script})
  endforeach()
endif()
if(HEALD_TESTS)
  heald_register(layering source tools/check_layering.sh)
  if(TARGET heald_shared AND NOT HEALD_SANITIZE AND NOT HEALD_COVERAGE)
    heald_register(exports source tools/check_exports.sh $<TARGET_FILE:heald_shared>)
  endif()
endif()
