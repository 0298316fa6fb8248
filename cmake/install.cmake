# What `make install` puts where. `make uninstall` removes exactly this.

include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/snib)

install(FILES include/snib.h include/snib.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS snib snib_static EXPORT snib-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

add_dependencies(snib_installed snib snib_static)

# The command finds its library also where the loader does not look, such as under /opt.
if(TARGET snib_command)
  file(RELATIVE_PATH to_libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set_target_properties(snib_command PROPERTIES INSTALL_RPATH "$ORIGIN/${to_libraries}")
  endif()
  install(TARGETS snib_command DESTINATION ${CMAKE_INSTALL_BINDIR})
  add_dependencies(snib_installed snib_command)
endif()

# For pkg-config.
configure_file(snib.pc.in snib.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/snib.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# For find_package(snib): snib::snib and snib::static. Until 1.0 a minor version may break.
configure_package_config_file(cmake/snib-config.cmake.in snib-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(snib-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/snib-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/snib-config-version.cmake
  DESTINATION ${package_dir})
install(EXPORT snib-targets NAMESPACE snib:: DESTINATION ${package_dir})

# Manual pages and completions.
foreach(section IN ITEMS 1 3 5 7)
  file(GLOB pages CONFIGURE_DEPENDS man/*.${section})
  if(pages)
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  endif()
endforeach()
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/completions)
  install(FILES completions/snib.bash RENAME snib
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES completions/_snib DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES completions/snib.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
