# The PostgreSQL engine, a module: libpq.

find_path(LIBPQ_INCLUDE libpq-fe.h PATH_SUFFIXES postgresql)
find_library(LIBPQ_LIBRARY pq)
option(SNIB_POSTGRES "Build the PostgreSQL engine" ON)

if(SNIB_POSTGRES)
  if(NOT LIBPQ_INCLUDE OR NOT LIBPQ_LIBRARY)
    message(FATAL_ERROR "the PostgreSQL engine wants libpq-dev; or configure with -DSNIB_POSTGRES=OFF")
  endif()
  file(GLOB postgres_sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/src/engines/postgres/*.c ${PROJECT_SOURCE_DIR}/src/engines/sql/*.c)
  snib_engine_module(postgres SOURCES ${postgres_sources} LIBRARIES ${LIBPQ_LIBRARY} INSTALL)
  target_include_directories(engine_postgres SYSTEM PRIVATE ${LIBPQ_INCLUDE})
endif()
