#include "cli/browser.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <unistd.h>

#ifdef KEEL_TEST_PNG
#include <png.h>
#endif

#include "cli/tool.h"
#include "support/temp_folder.h"

namespace keel_test {
namespace {

constexpr const char* kWidth = "1400";

// Writes what it finds into the page, where --dump-dom shows it.
constexpr const char* kProbe = R"html(
<script>
const found = {height: document.documentElement.scrollHeight, plots: [], marks: []};
for (const plot of document.querySelectorAll('svg.plot')) {
  found.plots.push(plot.id);
  for (const mark of plot.querySelectorAll('.mark')) {
    const box = mark.getBoundingClientRect();
    found.marks.push({plot: plot.id, shape: mark.tagName, x: box.x + scrollX, y: box.y + scrollY,
                      width: box.width, height: box.height,
                      colour: getComputedStyle(mark).fill.match(/[0-9]+/g).map(Number)});
  }
}
const probe = document.createElement('pre');
probe.id = 'probe';
probe.textContent = 'PROBE' + JSON.stringify(found) + 'EBORP';
document.body.appendChild(probe);
</script>
)html";

std::string on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

Words flags_of(const TempFolder& folder, size_t height, bool dark) {
  return {"--headless=new",
          "--no-sandbox",
          "--disable-gpu",
          "--disable-dev-shm-usage",
          "--hide-scrollbars",
          "--no-first-run",
          "--user-data-dir=" + folder.file("profile"),
          "--window-size=" + std::string(kWidth) + "," + std::to_string(height),
          std::string("--blink-settings=preferredColorScheme=") + (dark ? "0" : "1")};
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

#ifdef KEEL_TEST_PNG
Picture decode(const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, path.c_str()) == 0)
    throw std::runtime_error(path + ": " + image.message);
  image.format = PNG_FORMAT_RGB;
  Picture picture{image.width, image.height, std::vector<uint8_t>(PNG_IMAGE_SIZE(image))};
  if (png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr) == 0)
    throw std::runtime_error(path + ": " + image.message);
  return picture;
}
#else
Picture decode(const std::string& path) { throw std::runtime_error(path + ": no libpng"); }
#endif

}  // namespace

Colour Picture::at(double x, double y) const {
  const auto column = static_cast<size_t>(x), row = static_cast<size_t>(y);
  if (x < 0 || y < 0 || column >= width || row >= height) return {-1, -1, -1};
  const uint8_t* pixel = pixels.data() + 3 * (row * width + column);
  return {pixel[0], pixel[1], pixel[2]};
}

std::optional<Browser> Browser::find() {
  if (!missing().empty()) return std::nullopt;
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    const std::string program = on_path(name);
    if (!program.empty()) return Browser(program);
  }
  return std::nullopt;
}

std::string Browser::missing() {
#ifndef KEEL_TEST_PNG
  return "built without libpng-dev";
#endif
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (!on_path(name).empty()) return "";
  }
  return "no chromium on the PATH";
}

Layout Browser::layout(const std::string& html, bool dark) const {
  const TempFolder folder;
  const std::string page = folder.file("page.html");
  const size_t end = html.find("</main>");
  if (end == std::string::npos) throw std::runtime_error("the page has no end");
  write(page, html.substr(0, end) + kProbe + html.substr(end));
  Words words = flags_of(folder, 1000, dark);
  words.insert(words.end(), {"--dump-dom", "file://" + page});
  const ToolResult run = run_program(program_, words);
  const size_t begin = run.out.rfind("PROBE{"), stop = run.out.rfind("EBORP</pre>");
  if (run.exit_code != 0 || begin == std::string::npos || stop == std::string::npos)
    throw std::runtime_error("chromium --dump-dom: " + run.err);
  const auto found = nlohmann::json::parse(run.out.substr(begin + 5, stop - begin - 5));
  Layout layout{found["height"], found["plots"], {}};
  for (const auto& mark : found["marks"]) {
    layout.marks.push_back({mark["plot"],
                            mark["shape"],
                            mark["x"],
                            mark["y"],
                            mark["width"],
                            mark["height"],
                            {mark["colour"][0], mark["colour"][1], mark["colour"][2]}});
  }
  return layout;
}

Picture Browser::picture(const std::string& html, size_t height, bool dark) const {
  const TempFolder folder;
  const std::string page = folder.file("page.html"), shot = folder.file("shot.png");
  write(page, html);
  Words words = flags_of(folder, height, dark);
  words.insert(words.end(), {"--screenshot=" + shot, "file://" + page});
  const ToolResult run = run_program(program_, words);
  if (run.exit_code != 0) throw std::runtime_error("chromium --screenshot: " + run.err);
  return decode(shot);
}

}  // namespace keel_test
