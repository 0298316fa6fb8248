# The engine for MySQL and MariaDB, a module: libmariadb speaks to the server.

find_path(MARIADB_INCLUDE mysql.h PATH_SUFFIXES mariadb)
find_library(MARIADB_LIBRARY mariadb)
option(SNIB_MYSQL "Build the engine for MySQL and MariaDB" ON)

if(SNIB_MYSQL)
  foreach(wanted IN ITEMS MARIADB_INCLUDE MARIADB_LIBRARY)
    if(NOT ${wanted})
      message(FATAL_ERROR "the engine for MySQL and MariaDB wants libmariadb-dev (${wanted} was not "
        "found); or configure with -DSNIB_MYSQL=OFF")
    endif()
  endforeach()
  file(GLOB mysql_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/engines/mysql/*.c
    ${PROJECT_SOURCE_DIR}/src/engines/sql/*.c)
  snib_engine_module(mysql SOURCES ${mysql_sources} LIBRARIES ${MARIADB_LIBRARY} INSTALL)
  target_include_directories(engine_mysql SYSTEM PRIVATE ${MARIADB_INCLUDE})

  # The same parts, for tests that look inside.
  if(SNIB_TESTS)
    add_library(mysql_parts STATIC ${mysql_sources})
    target_include_directories(mysql_parts PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_include_directories(mysql_parts SYSTEM PUBLIC ${MARIADB_INCLUDE})
    target_link_libraries(mysql_parts PUBLIC snib_static ${MARIADB_LIBRARY})
  endif()
endif()
