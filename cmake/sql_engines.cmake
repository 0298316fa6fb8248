# The SQL engines: modules, since few programs want libpq or libmariadb. What both share is in
# src/sql; their routines in the database are in schema.sql beside each, which is also installed for
# those who run it by hand.

# Compiled once, for both.
file(GLOB sql_sources CONFIGURE_DEPENDS src/sql/*.c)
add_library(sql_objects OBJECT ${sql_sources})
set_target_properties(sql_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(sql_objects PRIVATE include src)

# sql_engine(NAME LIBRARY INCLUDE)
function(sql_engine name library include)
  file(GLOB sources CONFIGURE_DEPENDS src/engines/${name}/*.c)
  set(schema ${CMAKE_CURRENT_SOURCE_DIR}/src/engines/${name}/schema.sql)
  set(embed ${CMAKE_CURRENT_SOURCE_DIR}/tools/embed-schema)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name})
  add_custom_command(
    OUTPUT ${out}_schema.c
    COMMAND ${embed} --c ${name}_schema ${schema} > ${out}_schema.c
    COMMAND ${embed} ${schema} > ${out}.sql
    BYPRODUCTS ${out}.sql
    DEPENDS ${schema} ${embed}
    VERBATIM)
  snib_engine_module(${name} SOURCES ${sources} $<TARGET_OBJECTS:sql_objects> ${out}_schema.c
    LIBRARIES ${library} INSTALL)
  target_include_directories(engine_${name} SYSTEM PRIVATE ${include})
  install(FILES ${out}.sql DESTINATION ${CMAKE_INSTALL_DATADIR}/snib)
endfunction()

find_path(LIBPQ_INCLUDE libpq-fe.h PATH_SUFFIXES postgresql REQUIRED)
find_library(LIBPQ_LIBRARY pq REQUIRED)
sql_engine(postgres ${LIBPQ_LIBRARY} ${LIBPQ_INCLUDE})

find_path(LIBMARIADB_INCLUDE mysql.h PATH_SUFFIXES mariadb REQUIRED)
find_library(LIBMARIADB_LIBRARY mariadb REQUIRED)
sql_engine(mysql ${LIBMARIADB_LIBRARY} ${LIBMARIADB_INCLUDE})
