# How everything is compiled: C11, strict, hardened, nothing exported by accident.

include(CheckCSourceCompiles)
include(CheckCCompilerFlag)
include(CheckPIESupported)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
check_pie_supported(LANGUAGES C)

add_compile_definitions(_GNU_SOURCE _FILE_OFFSET_BITS=64)

# Assertions guard invariants and stay on in every build, whatever the build type says.
add_compile_options(-UNDEBUG)

add_compile_options(
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  -Wstrict-prototypes -Wmissing-prototypes -Wvla)
if(SNIB_WERROR)
  add_compile_options(-Werror)
endif()

if(SNIB_SANITIZE)
  add_compile_options(
    -fsanitize=${SNIB_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SNIB_SANITIZE})
else()
  add_link_options(-Wl,-z,defs)
endif()

if(SNIB_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()

# Hardening. Fortified functions hide errors from the sanitizers and need optimisation.
add_compile_options(-fstack-protector-strong)
foreach(flag IN ITEMS -fstack-clash-protection -fcf-protection)
  string(MAKE_C_IDENTIFIER "SNIB_HAS${flag}" has)
  check_c_compiler_flag(${flag} ${has})
  if(${has})
    add_compile_options(${flag})
  endif()
endforeach()
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed)

if(NOT SNIB_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
  check_c_source_compiles("#include <string.h>\nint main(void) { return 0; }" SNIB_HAS_FORTIFY_3)
  unset(CMAKE_REQUIRED_FLAGS)
  if(SNIB_HAS_FORTIFY_3)
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  else()
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  endif()
endif()
