// Shared objects that are no usable backends, each in its own way: the one whose macro is defined
// is compiled in.
#include <stdexcept>

#include <keel/backends/plugin.h>
#include <keel/core/base/error.h>

namespace {

class Nameless : public keel::Backend {
 public:
  std::string name() const override {
#if defined(BAD_NAME_EMPTY)
    return "";
#elif defined(BAD_NAME_CONTROL)
    return std::string("evil\x1b[31m\0backend", 17);
#elif defined(BAD_NAME_TAKEN)
    return "cpu";
#elif defined(BAD_NAME_THROWS)
    throw std::runtime_error("no name today");
#else
    return "nothing";
#endif
  }
  std::vector<keel::DeviceInfo> devices() const override {
#if defined(BAD_NO_DEVICE)
    return {};
#else
    return {{ name() + ":0", "none", 0, {} }};
#endif
  }
  keel::Support supports(const keel::Node&, const keel::DeviceOptions*) const override {
    return {};
  }
  std::shared_ptr<keel::Buffer> allocate(int, size_t, const std::string&) override { return {}; }
  SlotMemory allocate_slot(int, size_t, const std::string&) override { return {}; }
  std::unique_ptr<keel::Stream> make_stream(int, keel::StreamKind) override { return {}; }
  std::unique_ptr<keel::Program> compile(int, const keel::Graph&,
                                         const keel::CompileOptions&) override {
    return {};
  }
  void convert_layout(const keel::Type&, const keel::Layout&, const void*, const keel::Layout&,
                      void*) const override {}
  int64_t transfer_device_ns(int, size_t, const keel::DeviceOptions*) const override { return 0; }
};

#if defined(BAD_THROWS_ERROR)
struct Throwing : Nameless {
  Throwing() { throw keel::Error("the device is not plugged in"); }
};
#elif defined(BAD_THROWS_EXCEPTION)
struct Throwing : Nameless {
  Throwing() { throw std::runtime_error("the device is on fire"); }
};
#elif defined(BAD_THROWS_INT)
struct Throwing : Nameless {
  Throwing() { throw 42; }
};
#else
using Throwing = Nameless;
#endif

}  // namespace

#if defined(BAD_NO_ENTRY)
extern "C" __attribute__((visibility("default"))) int keel_made_backend() { return 1; }
#elif defined(BAD_NO_ABI)
extern "C" __attribute__((visibility("default"))) keel::Backend* keel_make_backend() {
  return new Throwing();
}
#elif defined(BAD_ENTRY_IS_DATA)
extern "C" {
__attribute__((visibility("default"))) extern const keel::PluginAbi keel_backend_abi;
const keel::PluginAbi keel_backend_abi = {};
__attribute__((visibility("default"))) int keel_make_backend = 7;
}
#elif defined(BAD_API_VERSION) || defined(BAD_LIBRARY)
extern "C" {
__attribute__((visibility("default"))) extern const keel::PluginAbi keel_backend_abi;
#if defined(BAD_API_VERSION)
const keel::PluginAbi keel_backend_abi = {.api_version = 1};
#else
const keel::PluginAbi keel_backend_abi = {.standard_library = "another library"};
#endif
__attribute__((visibility("default"))) keel::Backend* keel_make_backend() { return new Throwing(); }
}
#elif defined(BAD_NULL)
extern "C" {
__attribute__((visibility("default"))) extern const keel::PluginAbi keel_backend_abi;
const keel::PluginAbi keel_backend_abi = {};
__attribute__((visibility("default"))) keel::Backend* keel_make_backend() { return nullptr; }
}
#else
KEEL_BACKEND_PLUGIN(Throwing)
#endif
