// TensorFlow.js as an independent judge of what a GraphDef computes, in a process of its own: the
// npm package @tensorflow/tfjs, which only tests use. KEEL_TFJS names the folder it was installed
// in
// ("npm install --ignore-scripts @tensorflow/tfjs@4.22.0" there).
#ifndef KEEL_TESTS_SUPPORT_TFJS_H
#define KEEL_TESTS_SUPPORT_TFJS_H

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/temp_folder.h"

namespace keel_test {

class Tfjs {
 public:
  static std::string missing() {
    const char* folder = std::getenv("KEEL_TFJS");
    if (folder == nullptr || *folder == 0) return "KEEL_TFJS is not set";
    return "";
  }

  // A case as tfjs.js describes it.
  void add(nlohmann::json one) { cases_.push_back(std::move(one)); }

  // Runs all that were added, one after the other in one process, and another behind a case at
  // which that ends. Returns for each {error} or {outputs}.
  std::vector<nlohmann::json> run() const {
    folder_.write("cases.json", cases_.dump());
    std::vector<nlohmann::json> results;
    while (results.size() < cases_.size()) {
      folder_.write("results", "");
      const std::string command = "NODE_PATH=\"$KEEL_TFJS/node_modules\" timeout 20 node " +
                                  std::string(KEEL_SOURCE_DIR) + "/tests/support/tfjs.js " +
                                  folder_.path() + " " + std::to_string(results.size()) + " > " +
                                  folder_.file("log") + " 2>&1";
      static_cast<void>(std::system(command.c_str()));
      std::istringstream lines(read(folder_.file("results")));
      for (std::string line; std::getline(lines, line);)
        results.push_back(nlohmann::json::parse(line));
      if (results.size() < cases_.size())
        results.push_back({{"error", "it ended: " + read(folder_.file("log")).substr(0, 500)}});
    }
    return results;
  }

 private:
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TempFolder folder_;
  nlohmann::json cases_ = nlohmann::json::array();
};

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_TFJS_H
