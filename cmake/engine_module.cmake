# snib_engine_module(NAME SOURCES file... [LIBRARIES library...] [OUTPUT folder] [INSTALL])
#
# An engine outside libsnib: NAME.so, loaded by its scheme from $libdir/snib when a URL asks for it.
# It sees engine.h and net/, links libsnib.so, and exports the one symbol that the loader looks for;
# the version script made here hides everything else. INSTALL puts it into $libdir/snib.

function(snib_engine_module name)
  cmake_parse_arguments(PARSE_ARGV 1 module "INSTALL" "OUTPUT" "SOURCES;LIBRARIES")
  if(NOT module_OUTPUT)
    set(module_OUTPUT ${PROJECT_BINARY_DIR}/engines)
  endif()

  set(map ${CMAKE_CURRENT_BINARY_DIR}/engine_${name}.map)
  file(CONFIGURE OUTPUT ${map} @ONLY
    CONTENT "{ global: snib_engine_module; local: *; };\n")

  add_library(engine_${name} MODULE ${module_SOURCES})
  set_target_properties(engine_${name} PROPERTIES
    PREFIX ""
    OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${module_OUTPUT}
    C_VISIBILITY_PRESET default
    LINK_DEPENDS ${map})
  target_include_directories(engine_${name} PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_options(engine_${name} PRIVATE -Wl,--version-script=${map})
  target_link_libraries(engine_${name} PRIVATE snib ${module_LIBRARIES})

  if(module_INSTALL)
    add_dependencies(snib_installed engine_${name})
    install(TARGETS engine_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/snib)
  endif()
endfunction()
