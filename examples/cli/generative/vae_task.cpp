#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "cli/generative/generative.h"
#include "cli/run_flags.h"
#include "models/generative.h"

namespace keel_cli {
namespace {

constexpr int64_t kSide = 28;
constexpr int64_t kMostTested = 1000;

// Pictures beside each other, two rows of pixels in one line of text.
std::string in_characters(const keel::Tensor& images, int64_t count) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  std::string text;
  for (int64_t row = 0; row < kSide; row += 2) {
    for (int64_t image = 0; image < count; ++image) {
      for (int64_t column = 0; column < kSide; ++column) {
        const int64_t at = (image * kSide + row) * kSide + column;
        const double shade = (images.at(at) + images.at(at + kSide)) / 2;
        const auto level = static_cast<size_t>(shade * static_cast<double>(kShades.size()));
        text += kShades[std::min(level, kShades.size() - 1)];
      }
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    text += "\n";
  }
  return text;
}

keel::Tensor first_images(const keel::LabelledImages& set, int64_t most) {
  const int64_t count = std::min(set.count(), most);
  if (set.images.num_elements() != set.count() * kSide * kSide) {
    throw keel::Error({.op = "--data",
                       .expected = "grey images of 28x28 for vae",
                       .got = keel::to_string(set.images.type())});
  }
  keel::Tensor images(keel::u8, {count, kSide * kSide});
  std::copy_n(set.images.data<uint8_t>().begin(), images.num_elements(),
              images.data<uint8_t>().begin());
  return images;
}

}  // namespace

GenerativeTask make_vae_task(keel::Graph& graph, const std::string& data) {
  const keel::LabelledSplits splits = load_data(data);
  const keel_examples::Vae vae = keel_examples::build_vae(graph);
  GenerativeTask task;
  task.origin = splits.origin;
  task.input = vae.image;
  task.loss = vae.loss;
  task.items = first_images(splits.train, splits.train.count());
  task.rate = 0.001;
  const keel::Tensor tested = first_images(splits.test, kMostTested);
  task.report = [=](keel::Session& session) {
    const double nats = session.run({vae.loss}, {{vae.image, tested}})[0].at(0);
    return fmt::format("test bound {:.2f} nats an image", -nats);
  };
  task.picture = [=](keel::Session& session) {
    constexpr int64_t kShown = 4;
    return in_characters(session.run({vae.samples})[0], kShown);
  };
  return task;
}

}  // namespace keel_cli
