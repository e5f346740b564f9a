// Bools of other bytes than 0 and 1 came as they were, and backends took them for different things.
// A metadata entry whose name ends like the checksum's was taken for it, and the file that was
// written could not be read.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/safetensors.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/temp_folder.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("any byte but 0 of a file's bools is true") {
  const std::string json = R"({"b":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(json.size());
  bytes += json + std::string("\x02\x01\x00\xff", 4);
  const Tensor flags = parse_safetensors(bytes, "flags.safetensors").tensors.at("b");
  for (int64_t i = 0; i < 4; ++i) CHECK(flags.at(i) == (i == 2 ? 0 : 1));
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value b = g.state("b", from_tensor(flags), {.trainable = false});
    Session session(g, device(name));
    const Tensor turned = session.run(logical_not(b));
    for (int64_t i = 0; i < 4; ++i) CHECK(turned.at(i) == (i == 2 ? 1 : 0));
  }
}

TEST_CASE("a file whose metadata speak of checksums can be read again") {
  const keel_test::TempFolder folder;
  const std::string path = folder.path() + "/w.safetensors";
  const std::string ends_alike = "a\"keel_sha256", is_alike = "\"keel_sha256\":\"";
  write_safetensors(path, {{"w", Tensor::full(f32, {2}, 3)}},
                    {{ends_alike, std::string(100, 'x')}, {"b", is_alike + std::string(70, '0')}});
  const Safetensors read = read_safetensors(path);
  CHECK(read.tensors.at("w").at(1) == 3);
  CHECK(read.metadata.at(ends_alike) == std::string(100, 'x'));
  CHECK(read.has_checksums);
}

TEST_SUITE_END();

}  // namespace keel
