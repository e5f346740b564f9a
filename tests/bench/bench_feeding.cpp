// Feeding alone: how many MNIST-sized images a second a pipeline delivers in shuffled batches of
// 100, as bytes, normalised to f32 by a map and augmented, beside a plain shuffled memcpy. Best of
// a few runs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "keel/backends/registry.h"
#include "keel/core/base/random.h"
#include "keel/data/feed/feed.h"
#include "keel/data/pipeline/iterator.h"
#include "keel/graph/runtime/graph_function.h"
#include "keel/ops/elementwise.h"

namespace {

using namespace keel;
using Clock = std::chrono::steady_clock;

constexpr int64_t kImages = 60000;
constexpr int64_t kPixels = 784;
constexpr int64_t kBatch = 100;
constexpr int64_t kBatches = kImages / kBatch;
constexpr int kRuns = 7;
constexpr int kPasses = 3;  // of a run

Dataset images() {
  Tensor pixels(u8, {kImages, kPixels});
  auto* bytes = static_cast<uint8_t*>(pixels.raw());
  for (int64_t i = 0; i < kImages * kPixels; ++i)
    bytes[i] = static_cast<uint8_t>(random_bits(1, static_cast<uint64_t>(i)));
  return Dataset::from_tensors({{"image", pixels}, {"label", Tensor(u8, {kImages})}});
}

// Normalises one image, in plain code as a user would write it.
void normalise(const ItemView& in, const ItemSlot& out) {
  const uint8_t* from = in.data<uint8_t>(0).data();
  float* to = out.data<float>(0).data();
  for (int64_t i = 0; i < kPixels; ++i)
    to[i] = (static_cast<float>(from[i]) - 33.3f) * (1.0f / 78.6f);
  out.data<uint8_t>(1)[0] = in.data<uint8_t>(1)[0];
}

// Calls pass() for warming up, then times it.
template <class Pass>
void report(const char* name, Pass pass) {
  pass();
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = Clock::now();
    for (int i = 0; i < kPasses; ++i) pass();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, kPasses * static_cast<double>(kImages) / seconds);
  }
  std::printf("%-52s %7.2f M images/s\n", name, best * 1e-6);
}

// A pass over the batches on the caller's thread, into the same two slots in turn.
void report_iterator(const char* name, const Dataset& batches) {
  const ElementSpec& spec = batches.spec();
  std::vector<std::vector<std::byte>> memory;
  for (int slot = 0; slot < 2; ++slot) memory.emplace_back(spec.slot_bytes() + 64);
  DatasetIterator iterator(batches.repeat());
  int64_t number = 0;
  report(name, [&] {
    for (int64_t i = 0; i < kBatches; ++i) {
      auto base = reinterpret_cast<uintptr_t>(memory[static_cast<size_t>(number++ % 2)].data());
      base = (base + 63) / 64 * 64;
      std::vector<void*> fields;
      for (const size_t offset : spec.offsets())
        fields.push_back(reinterpret_cast<void*>(base + offset));
      iterator.next_into(fields);
    }
  });
}

// The same through a feeder's thread and a queue on the cpu device.
void report_feed(const char* name, const Dataset& batches) {
  const auto feeder = feed(batches.repeat(), {device("cpu"), batches.spec()});
  const auto queue = feeder->queue();
  std::vector<void*> fields(batches.spec().fields.size());
  if (!queue->resident().empty()) fields.resize(1);
  report(name, [&] {
    for (int64_t i = 0; i < kBatches; ++i) {
      Cursor cursor;
      queue->dequeue(fields, &cursor, nullptr);
      queue->release();
    }
  });
}

void report_memcpy(const Dataset& items) {
  DatasetIterator all(items.batch(kImages));
  const Tensor pixels = (*all.next())[0];
  const auto* from = static_cast<const std::byte*>(pixels.raw());
  const auto order = shuffled_indices(static_cast<uint32_t>(kImages), 1);
  std::vector<std::byte> slots(2 * kBatch * kPixels);
  report("plain shuffled memcpy", [&] {
    for (size_t i = 0; i < static_cast<size_t>(kImages); ++i) {
      std::memcpy(slots.data() + i % (2 * kBatch) * kPixels, from + order[i] * kPixels, kPixels);
    }
  });
}

}  // namespace

int main() {
  const Dataset items = images();
  const Dataset shuffled = items.shuffle(1);
  ElementSpec normalised = items.spec();
  normalised.fields[0].type.dtype = f32;
  const auto graph = graph_function(items.spec(), device("cpu"), [](const Values& in) {
    return NamedValues{{"image", (cast(in[0], f32) - 33.3f) * (1.0f / 78.6f)}, {"label", in[1]}};
  });
  const auto batch_graph =
      graph_function(shuffled.batch(kBatch).spec(), device("cpu"), [](const Values& in) {
        return NamedValues{{"image", (cast(in[0], f32) - 33.3f) * (1.0f / 78.6f)},
                           {"label", in[1]}};
      });
  const auto mapped = [&](int threads) {
    return shuffled.map(normalised, normalise, {.name = "normalise", .threads = threads})
        .batch(kBatch);
  };
  report_memcpy(items);
  report_iterator("u8 batches, 1 thread", shuffled.batch(kBatch));
  report_feed("u8 batches through a queue", shuffled.batch(kBatch));
  report_feed("rows of a device cache through a queue",
              items.cache(device("cpu")).shuffle(1).batch(kBatch));
  const ImageAugmentation moved{.image = {28, 28}, .shift = 2};
  ImageAugmentation changed{.image = {28, 28}, .shift = 2, .flip = true, .cutout = 8};
  changed.mean = {0.13};
  changed.deviation = {0.31};
  report_iterator("shifted, 1 thread", shuffled.augment(moved, 1).batch(kBatch));
  report_iterator("shifted, flipped, cut out, normalised, 1 thread",
                  shuffled.augment(changed, 1).batch(kBatch));
  report_iterator("normalised to f32 by map, 1 thread", mapped(1));
  report_iterator("normalised to f32 by map, 2 threads", mapped(2));
  report_iterator("normalised to f32 by a graph, per item, 1 thread",
                  shuffled.map(graph, {.name = "graph"}).batch(kBatch));
  report_iterator("normalised to f32 by a graph, per batch, 1 thread",
                  shuffled.batch(kBatch).map(batch_graph, {.name = "graph"}));
  return 0;
}
