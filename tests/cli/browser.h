// Headless Chromium, for tests that open a page of ours: the document after layout, where each
// element lies, and what a reader sees. One thread.
#ifndef KEEL_TESTS_CLI_BROWSER_H
#define KEEL_TESTS_CLI_BROWSER_H

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace keel_test {

using Colour = std::array<int, 3>;  // red, green, blue

struct Picture {
  size_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  // RGB, row by row
  Colour at(double x, double y) const;
};

// An element of class "mark" as it was laid out, in pixels of the page.
struct LaidOutMark {
  std::string plot;  // id of its svg
  std::string shape;
  double x = 0, y = 0, width = 0, height = 0;
  Colour colour{};  // that its style gives it
};

struct Layout {
  size_t height = 0;               // of the page
  std::vector<std::string> plots;  // ids
  std::vector<LaidOutMark> marks;
};

class Browser {
 public:
  // Chromium or Chrome on the PATH; nothing where there is none, or no way to read PNG here.
  static std::optional<Browser> find();
  // Why not, for those who read that a test was skipped.
  static std::string missing();

  // With all scripts switched off but the one that measures.
  Layout layout(const std::string& html, bool dark) const;
  Picture picture(const std::string& html, size_t height, bool dark) const;

 private:
  explicit Browser(std::string program) : program_(std::move(program)) {}
  std::string program_;
};

}  // namespace keel_test

#endif  // KEEL_TESTS_CLI_BROWSER_H
