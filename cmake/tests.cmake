# SPDX-License-Identifier: Apache-2.0
# Every test runs from the top of the sources, with HEALD naming the command under test. A C test is
# linked to the highest room that it includes (and so to all before it), or to every room if none.

set(test_env HEALD=${PROJECT_BINARY_DIR}/heald HEALD_BUILD=${PROJECT_BINARY_DIR} CMOCKA_MESSAGE_OUTPUT=TAP
  HEALD_CACHE_DIR=${PROJECT_BINARY_DIR}/test-cache)
if(HEALD_SANITIZE) # NVRTC is not ours, and compiling is most of what tests of CUDA text do
  list(APPEND test_env HEALD_NVRTC=none HEALD_REQUIRE_NVRTC=)
endif()

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
  # Messages made by an independent implementation: X.proto gives "X.pb-c.h" to the tests.
  file(GLOB protos CONFIGURE_DEPENDS tests/unit/*.proto)
  if(protos)
    pkg_check_modules(protobuf_c REQUIRED IMPORTED_TARGET libprotobuf-c)
    find_program(PROTOC_C protoc-c REQUIRED)
    add_library(test_protos STATIC)
    target_compile_options(test_protos PRIVATE -w)
    target_include_directories(test_protos PUBLIC ${PROJECT_BINARY_DIR}/protos)
    target_link_libraries(test_protos PUBLIC PkgConfig::protobuf_c)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/protos)
    foreach(proto IN LISTS protos)
      get_filename_component(name ${proto} NAME_WE)
      set(made ${PROJECT_BINARY_DIR}/protos/${name}.pb-c)
      add_custom_command(OUTPUT ${made}.c ${made}.h DEPENDS ${proto}
        COMMAND ${PROTOC_C} --proto_path=${PROJECT_SOURCE_DIR}/tests/unit
          --c_out=${PROJECT_BINARY_DIR}/protos ${proto} VERBATIM)
      target_sources(test_protos PRIVATE ${made}.c)
    endforeach()
  endif()
  foreach(source IN LISTS unit_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    heald_link_rooms(${name} ${source})
    target_link_libraries(${name} PRIVATE PkgConfig::cmocka)
    if(name STREQUAL test_random_graphs) # is long, and so has parts
      file(GLOB parts CONFIGURE_DEPENDS tests/property/random_graph_*.c)
      target_sources(${name} PRIVATE ${parts})
    endif()
    file(STRINGS ${source} proto_includes REGEX "^#include \".*[.]pb-c[.]h\"")
    if(proto_includes)
      target_link_libraries(${name} PRIVATE test_protos)
    endif()
    heald_register(${name} unit ${name})
    if(name STREQUAL test_cuda_codegen) # 230 s of compiling on an idle core
      set_tests_properties(${name} PROPERTIES TIMEOUT 1800 COST 1000)
    endif()
  endforeach()
endif()

# ---- the ONNX reader against protobuf-c, where that is installed ------------------------------------
find_program(PROTOC_C protoc-c)
pkg_check_modules(protobuf_c IMPORTED_TARGET libprotobuf-c)
if(HEALD_TESTS AND TARGET heald_frontends AND PROTOC_C AND protobuf_c_FOUND)
  set(proto ${PROJECT_BINARY_DIR}/onnx_subset)
  add_custom_command(
    OUTPUT ${proto}.pb-c.c ${proto}.pb-c.h
    COMMAND ${PROTOC_C} --proto_path=${PROJECT_SOURCE_DIR}/tests/unit
      --c_out=${PROJECT_BINARY_DIR} onnx_subset.proto
    DEPENDS tests/unit/onnx_subset.proto
    VERBATIM)
  add_executable(test_onnx_protobuf tests/unit/onnx_protobuf.c ${proto}.pb-c.c ${proto}.pb-c.h)
  set_source_files_properties(${proto}.pb-c.c PROPERTIES COMPILE_OPTIONS -w)
  heald_link_rooms(test_onnx_protobuf ${PROJECT_SOURCE_DIR}/tests/unit/onnx_protobuf.c)
  target_include_directories(test_onnx_protobuf PRIVATE ${PROJECT_BINARY_DIR})
  target_link_libraries(test_onnx_protobuf PRIVATE PkgConfig::cmocka PkgConfig::protobuf_c)
  heald_register(test_onnx_protobuf unit test_onnx_protobuf)
elseif(HEALD_TESTS)
  message(STATUS "test_onnx_protobuf is left out: it needs protoc-c and libprotobuf-c")
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

# ---- ONNX's own test suites, where Debian's libonnx-testdata is installed ----------------------------
if(HEALD_TESTS AND TARGET heald_api AND NOT HEALD_SANITIZE AND NOT HEALD_COVERAGE)
  add_executable(conformance tests/conformance/conformance.c)
  heald_link_rooms(conformance tests/conformance/conformance.c)
  heald_register(conformance suite conformance tests/conformance/expected.txt)
  set_tests_properties(conformance PROPERTIES TIMEOUT 1800)
endif()

# ---- the programs that show the public interface -----------------------------------------------------
if(HEALD_TESTS AND TARGET heald_static)
  file(GLOB example_sources CONFIGURE_DEPENDS examples/c/*.c)
  set(example_arguments_classify examples/models/mnist_8/model.onnx
    examples/models/mnist_8/test_data_set_0/input_0.pb)
  set(example_arguments_stream ${example_arguments_classify})
  foreach(source IN LISTS example_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(example_${name} ${source})
    target_link_libraries(example_${name} PRIVATE heald::static m)
    heald_register(example_${name} api example_${name} ${example_arguments_${name}})
  endforeach()
endif()

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
    heald_register(install source bash tests/cli/install/run.sh)
  endif()
endif()
