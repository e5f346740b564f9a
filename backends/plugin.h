// Plugins: how a shared object becomes a backend that Keel loads at run time (load_backend_plugin,
// --plugin of the tool). One line in one of its files, outside of namespaces:
//
//   KEEL_BACKEND_PLUGIN(my::Backend)
//
// It exports the entry `keel_make_backend` and, beside it, what the object was compiled against:
// the library reads that from the file before it runs anything of it.
#ifndef KEEL_BACKENDS_PLUGIN_H
#define KEEL_BACKENDS_PLUGIN_H

#include <string>  // which defines the macros below

#include "keel/core/device/backend.h"

#if defined(_LIBCPP_VERSION)
#define KEEL_STANDARD_LIBRARY "libc++"
#elif defined(_GLIBCXX_DEBUG)
#define KEEL_STANDARD_LIBRARY "libstdc++ with debug containers"
#elif defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
#define KEEL_STANDARD_LIBRARY "libstdc++"
#else
#define KEEL_STANDARD_LIBRARY "libstdc++ with strings from before C++11"
#endif

namespace keel {

// Library and plugin must agree in this, in bytes that can be read without running anything.
// g++ and clang++ make the same code of classes; their standard libraries differ.
struct PluginAbi {
  int api_version = kBackendApiVersion;
  char standard_library[60] = KEEL_STANDARD_LIBRARY;
};

inline constexpr const char* kPluginAbiSymbol = "keel_backend_abi";
inline constexpr const char* kPluginEntrySymbol = "keel_make_backend";

}  // namespace keel

// `Class` is a keel::Backend that can be made without arguments. What its constructor throws is
// reported as the reason why the plugin was refused.
#define KEEL_BACKEND_PLUGIN(Class)                                                      \
  extern "C" {                                                                          \
  __attribute__((visibility("default"))) extern const keel::PluginAbi keel_backend_abi; \
  const keel::PluginAbi keel_backend_abi = {};                                          \
  __attribute__((visibility("default"))) keel::Backend* keel_make_backend() {           \
    return new Class();                                                                 \
  }                                                                                     \
  }

#endif  // KEEL_BACKENDS_PLUGIN_H
