// OpenCV's dnn module as an independent reader of what Keel exports: Debian's python3-opencv, which
// only tests use. Its graphs have a fixed batch.
#ifndef KEEL_TESTS_SUPPORT_OPENCV_DNN_H
#define KEEL_TESTS_SUPPORT_OPENCV_DNN_H

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "support/temp_folder.h"

namespace keel_test {

inline bool has_opencv() {
  static const bool kFound = std::system("/usr/bin/python3 -c 'import cv2' >/dev/null 2>&1") == 0;
  return kFound;
}

// The class that OpenCV finds in each image: `model` takes `batch` of them at a time, and `images`
// holds bytes, a row of as many numbers as the model takes for each. Empty where it fails, which
// says why on the terminal.
inline std::vector<size_t> opencv_classes(const std::string& model, const std::string& images,
                                          int batch, int numbers) {
  const TempFolder files;
  const std::string program = files.write("classes.py", R"(
import sys, cv2, numpy
model, images, batch, numbers, out = sys.argv[1:]
net = cv2.dnn.readNetFromONNX(model)
rows = numpy.fromfile(images, numpy.uint8).reshape(-1, int(batch), int(numbers))
with open(out, 'w') as found:
    for part in rows:
        net.setInput(part.astype(numpy.float32))
        print(*net.forward().argmax(1), file=found)
)");
  const std::string out = files.file("classes");
  const std::string command = "/usr/bin/python3 " + program + " " + model + " " + images + " " +
                              std::to_string(batch) + " " + std::to_string(numbers) + " " + out;
  if (std::system(command.c_str()) != 0) return {};
  std::ifstream in(out);
  std::vector<size_t> found;
  for (size_t value = 0; in >> value;) found.push_back(value);
  return found;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_OPENCV_DNN_H
