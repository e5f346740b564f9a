// Saved states had no checksum: of 256,192 files with one flipped bit 253,082 were read without a
// word, and a keel/step that cannot be was believed.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/base/file.h"
#include "keel/data/data.h"
#include "keel/graph/graph.h"
#include "keel/graph/runtime/checkpoint.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "support/safetensors_bytes.h"
#include "support/scale.h"
#include "support/temp_folder.h"

namespace {

using namespace keel;
using namespace keel_test;

// The states of softmax regression: 31,416 bytes of data.
std::string saved_softmax(const TempFolder& folder) {
  Tensor w(f32, {784, 10});
  for (int64_t i = 0; i < w.num_elements(); ++i) w.set(i, std::sin(static_cast<double>(i)) / 7);
  const std::string path = folder.file("states");
  write_safetensors(path,
                    {{"w", w},
                     {"b", Tensor::full(f32, {10}, 0.25)},
                     {"keel/step", Tensor::scalar<int64_t>(600)},
                     {"keel/seed", Tensor::scalar<int64_t>(3)}},
                    {{"model", "softmax"}, {"lr", "0.5"}, {"batch", "100"}, {"step", "600"}});
  return read_file(path, 1 << 20);
}

// A session of one state, and the bytes of a file that it saved after `steps` steps.
struct OneState {
  OneState() : w(graph.state("w", zeros({3}))) {
    update.assignments.push_back({w, w + 1.0f});
    session.emplace(graph, device("ref:0"), SessionOptions{.seed = 7});
  }
  std::string saved(int steps) {
    for (int i = 0; i < steps; ++i) session->run(update, {});
    session->save(folder.file("states"));
    return read_file(folder.file("states"), 1 << 20);
  }
  std::string error_with(const std::string& bytes) {
    const std::string path = folder.write("changed", bytes);
    return error_of([&] { session->load(path); });
  }

  Graph graph;
  Value w;
  Update update;
  std::optional<Session> session;
  TempFolder folder;
};

std::string i64_bytes(int64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  return bytes;
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("safetensors: every single flipped bit of a saved file is refused") {
  const TempFolder folder;
  const std::string whole = saved_softmax(folder);
  CHECK(parse_safetensors(whole, "whole").has_checksums);
  const size_t header_bits = 8 * (8 + safetensors_header(whole).size());
  // All of the header, and of the data each bit or, at CI scale, every 97th.
  const size_t stride = keel_test::long_scale() ? 1 : 97;
  std::string changed = whole;
  size_t flips = 0;
  size_t accepted = 0;
  for (size_t bit = 0; bit < 8 * whole.size();
       bit += bit < header_bits && stride == 1 ? 1 : (bit < header_bits ? 3 : stride)) {
    const auto mask = static_cast<char>(1 << (bit % 8));
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ mask);
    const std::string error = error_of([&] { parse_safetensors(changed, "flipped"); });
    if (!contains(error, "flipped")) ++accepted;
    changed[bit / 8] = whole[bit / 8];
    ++flips;
  }
  MESSAGE(flips << " of " << 8 * whole.size() << " bits flipped, " << accepted << " accepted");
  CHECK(accepted == 0);
}

TEST_CASE("safetensors: damaged data names the tensor") {
  const TempFolder folder;
  std::string bytes = saved_softmax(folder);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  // Wide elements come first and tensors of one width in name order: w is the last.
  const std::string error = error_of([&] { parse_safetensors(bytes, "states"); });
  CHECK(contains(error, "states: tensor 'w'"));
  CHECK(contains(error, "checksum"));
}

TEST_CASE("safetensors: the checksums are those of the definition") {
  const TempFolder folder;
  const std::string bytes = saved_softmax(folder);
  CHECK(with_right_checksums(bytes) == bytes);
}

TEST_CASE("safetensors: a file of another program has no checksums and can be read") {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const Safetensors file = parse_safetensors(safetensors_bytes(header, "\x01\x02\x03\x04"), "a");
  CHECK_FALSE(file.has_checksums);
  CHECK(file.metadata == std::map<std::string, std::string>{{"format", "pt"}});
  CHECK(file.tensors.contains("w"));
}

// What is not resumed was said to be read by Session::load, which asks for Keel's own counters.
TEST_CASE("safetensors: a file of another program is loaded as the error about it says") {
  const TempFolder folder;
  const std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string path =
      folder.write("other.safetensors", safetensors_bytes(header, std::string("\0\0\x80\x3f", 4)));
  const std::string error = error_of([&] { resumable_metadata(path); });
  CHECK_MESSAGE(contains(error, "load_weights puts what read_safetensors reads of it"), error);
  CHECK_MESSAGE(!contains(error, "Session::load"), error);
  Graph graph;
  const Value w = graph.state("w", {.type = {f32, {1}}});
  graph.set_outputs({w});
  Session session(graph, device("ref"));
  CHECK_FALSE(error_of([&] { session.load(path); }).empty());
  CHECK(load_weights(session, {w}, read_safetensors(path).tensors).complete());
  CHECK(session.read(w).at(0) == 1);
}

TEST_CASE("safetensors: a part of the checksums is not enough") {
  const TempFolder folder;
  const std::string bytes = saved_softmax(folder);
  for (const char* name : {"keel_format", "keel_sha256", "keel_tensor_sha256"}) {
    CAPTURE(name);
    std::string other = name;
    other.back() = '!';
    const std::string error = error_of([&] {
      parse_safetensors(replaced(bytes, "\"" + std::string(name) + "\"", "\"" + other + "\""), "a");
    });
    CHECK(contains(error, "checksum"));
    CHECK(contains(error_of([&] {
                     write_safetensors(folder.file("mine"), {}, {{name, "mine"}});
                   }),
                   name));
  }
  const std::string newer =
      with_right_checksums(replaced(bytes, "\"keel_format\":\"1\"", "\"keel_format\":\"2\""));
  CHECK(contains(error_of([&] { parse_safetensors(newer, "a"); }), "expected 1, got '2'"));
}

TEST_CASE("load: a step or a seed that is not the metadata's is refused and changes nothing") {
  OneState s;
  const std::string bytes = s.saved(5);
  const std::string before = s.session->state_sha256();
  CHECK(s.error_with(bytes).empty());
  const auto with_step = [&](int64_t step) {
    return with_right_checksums(replaced(bytes, i64_bytes(5), i64_bytes(step)));
  };
  for (const int64_t step : {int64_t{6}, int64_t{-1}, std::numeric_limits<int64_t>::min(),
                             std::numeric_limits<int64_t>::max()}) {
    CAPTURE(step);
    const std::string error = s.error_with(with_step(step));
    CHECK(contains(error, s.folder.file("changed")));
    CHECK(contains(error, "keel/step"));
    CHECK(contains(error, "got " + std::to_string(step)));
    CHECK(s.session->state_sha256() == before);
  }
  s.session->save(s.folder.file("seeded"), {{"seed", "7"}});
  const std::string seeded = read_file(s.folder.file("seeded"), 1 << 20);
  const std::string other =
      with_right_checksums(replaced(seeded, "\"seed\":\"7\"", "\"seed\":\"8\""));
  CHECK(contains(s.error_with(other), "keel/seed"));
}

TEST_CASE("load: counters of another type and files without a seed") {
  OneState s;
  const std::string path = s.folder.file("counted");
  s.session->save(path);
  Safetensors file = read_safetensors(path);
  for (const char* name : {"keel_format", "keel_sha256", "keel_tensor_sha256"})
    file.metadata.erase(name);
  file.tensors["keel/updates"] = Tensor::scalar<float>(1);
  write_safetensors(path, file.tensors, file.metadata);
  CHECK(contains(error_of([&] { s.session->load(path); }), "keel/updates"));
  file.tensors.erase("keel/updates");
  file.tensors.erase("keel/seed");
  write_safetensors(path, file.tensors, file.metadata);
  CHECK(contains(error_of([&] { s.session->load(path); }), "keel/seed"));
}

TEST_CASE("resume: a place in the data that is none is refused") {
  const Cursor place{.epoch = 3, .position = 41, .key = std::numeric_limits<uint64_t>::max()};
  std::map<std::string, std::string> metadata;
  add_cursor(metadata, place);
  CHECK(cursor_in(metadata, "file") == place);
  for (const auto& entry : metadata) {
    CAPTURE(entry.first);
    auto changed = metadata;
    for (const char* wrong : {"", "-1", "x", "1 ", "99999999999999999999"}) {
      changed[entry.first] = wrong;
      const std::string error = error_of([&] { cursor_in(changed, "file"); });
      CHECK_MESSAGE(contains(error, "file, " + entry.first), error);
      CHECK_MESSAGE(contains(error, "got '" + std::string(wrong) + "'"), error);
    }
    changed.erase(entry.first);
    CHECK(contains(error_of([&] { cursor_in(changed, "file"); }), "no " + entry.first));
  }
}

TEST_CASE("save: metadata of the caller that contradict the states do not make a file useless") {
  OneState s;
  s.session->save(s.folder.file("mine"), {{"seed", "42"}, {"step", "7"}, {"note", "kept"}});
  const auto metadata = s.session->load(s.folder.file("mine"));
  CHECK(metadata.at("seed") == "7");
  CHECK(metadata.at("step") == std::to_string(s.session->step()));
  CHECK(metadata.at("note") == "kept");
}

TEST_CASE("trainer: a file without checksums is not resumed but its weights are loaded") {
  Graph graph;
  const Value x = graph.input("x", f32, {2});
  const Value w = graph.state("w", zeros({2}));
  Update update;
  update.assignments.push_back({w, w + x});
  Session session(graph, device("ref:0"));
  const auto data = Dataset::from_tensors({{"x", Tensor::full(f32, {4, 2}, 1)}}).repeat();
  Trainer trainer(session,
                  {.update = update, .fetches = {sum(w)}, .source = feed(data, session.spec({x}))});
  trainer.fit({.steps = 3});
  const TempFolder folder;
  trainer.save(folder.file("ours"));
  // The same file without its checksums.
  const std::string ours = read_file(folder.file("ours"), 1 << 20);
  auto header = nlohmann::json::parse(safetensors_header(ours));
  for (const char* name : {"keel_format", "keel_sha256", "keel_tensor_sha256"})
    header["__metadata__"].erase(name);
  const std::string theirs = folder.write(
      "theirs", safetensors_bytes(header.dump(), ours.substr(8 + safetensors_header(ours).size())));
  trainer.fit({.steps = 1});
  CHECK(contains(error_of([&] { trainer.resume(theirs); }), "checksums"));
  CHECK(session.step() == 4);
  session.load(theirs);
  CHECK(session.step() == 3);
  CHECK(session.read(w).at(0) == 3);
}

TEST_SUITE_END();
