# The etcd engine, a module: nghttp2 for HTTP/2, protobuf-c for the messages of rpc.proto.

find_path(NGHTTP2_INCLUDE nghttp2/nghttp2.h)
find_library(NGHTTP2_LIBRARY nghttp2)
find_path(PROTOBUF_C_INCLUDE protobuf-c/protobuf-c.h)
find_library(PROTOBUF_C_LIBRARY protobuf-c)
find_program(PROTOC_C protoc-c)
option(SNIB_ETCD "Build the etcd engine" ON)

if(SNIB_ETCD)
  foreach(wanted IN ITEMS NGHTTP2_INCLUDE NGHTTP2_LIBRARY PROTOBUF_C_INCLUDE PROTOBUF_C_LIBRARY PROTOC_C)
    if(NOT ${wanted})
      message(FATAL_ERROR "the etcd engine wants libnghttp2-dev, libprotobuf-c-dev and "
        "protobuf-c-compiler (${wanted} was not found); or configure with -DSNIB_ETCD=OFF")
    endif()
  endforeach()
  set(etcd_generated ${PROJECT_BINARY_DIR}/etcd)
  file(MAKE_DIRECTORY ${etcd_generated})
  add_custom_command(
    OUTPUT ${etcd_generated}/rpc.pb-c.c ${etcd_generated}/rpc.pb-c.h
    COMMAND ${PROTOC_C} --c_out=${etcd_generated} --proto_path=${PROJECT_SOURCE_DIR}/src/engines/etcd rpc.proto
    DEPENDS ${PROJECT_SOURCE_DIR}/src/engines/etcd/rpc.proto
    VERBATIM)
  file(GLOB etcd_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/engines/etcd/*.c)
  set_source_files_properties(${etcd_generated}/rpc.pb-c.c PROPERTIES COMPILE_OPTIONS -w)
  snib_engine_module(etcd SOURCES ${etcd_sources} ${etcd_generated}/rpc.pb-c.c
    LIBRARIES ${NGHTTP2_LIBRARY} ${PROTOBUF_C_LIBRARY} INSTALL)
  target_include_directories(engine_etcd PRIVATE ${etcd_generated})
  target_include_directories(engine_etcd SYSTEM PRIVATE ${NGHTTP2_INCLUDE} ${PROTOBUF_C_INCLUDE})

  # The same parts, for tests that look inside.
  if(SNIB_TESTS OR SNIB_FUZZ)
    add_library(etcd_parts STATIC ${etcd_sources} ${etcd_generated}/rpc.pb-c.c)
    target_include_directories(etcd_parts PUBLIC ${PROJECT_SOURCE_DIR}/src ${etcd_generated})
    target_link_libraries(etcd_parts PUBLIC snib_static ${NGHTTP2_LIBRARY} ${PROTOBUF_C_LIBRARY})
    add_dependencies(etcd_parts engine_etcd) # which makes rpc.pb-c.h
  endif()
endif()
