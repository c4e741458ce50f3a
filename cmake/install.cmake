# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down. The package files find everything from their own place, so an
# installed tree may be moved as a whole.
include(CMakePackageConfigHelpers)

if(TARGET heald)
  install(TARGETS heald RUNTIME)
  # The man page and the shell's completion come from the option table of the command itself.
  install(CODE "
    execute_process(COMMAND $<TARGET_FILE:heald> --man RESULT_VARIABLE status
      OUTPUT_VARIABLE page ERROR_QUIET)
    if(status EQUAL 0 AND page MATCHES \"^[.]TH \")
      set(dir \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1\")
      file(WRITE \"\${dir}/heald.1\" \"\${page}\")
      message(STATUS \"Installing: \${dir}/heald.1\")
      set(dir \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/bash-completion\")
      file(MAKE_DIRECTORY \"\${dir}/completions\")
      execute_process(COMMAND $<TARGET_FILE:heald> --completion bash
        OUTPUT_FILE \"\${dir}/completions/heald\")
      message(STATUS \"Installing: \${dir}/completions/heald\")
    endif()")
endif()
if(TARGET heald_shared)
  install(FILES include/heald.h TYPE INCLUDE)
  install(TARGETS heald_shared heald_static EXPORT heald)
  install(EXPORT heald NAMESPACE heald:: FILE heald-targets.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/heald)
  configure_package_config_file(cmake/heald-config.cmake.in heald-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/heald)
  write_basic_package_version_file(heald-config-version.cmake COMPATIBILITY SameMinorVersion)
  list(JOIN private_packages " " HEALD_PRIVATE_PACKAGES)
  file(RELATIVE_PATH HEALD_PC_TO_PREFIX
    /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(cmake/heald.pc.in heald.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/heald-config.cmake
    ${PROJECT_BINARY_DIR}/heald-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/heald)
  install(FILES ${PROJECT_BINARY_DIR}/heald.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
