// MNIST, or any set in its four files: {train,t10k}-images-idx3-ubyte and
// {train,t10k}-labels-idx1-ubyte, each plain or with .gz. Where a folder has none of these names,
// files of any names are told by what is in them: two IDX files of images and two with as many
// labels, of which the larger two are those of training. Pure functions; any thread.
#ifndef KEEL_DATA_FORMATS_MNIST_H
#define KEEL_DATA_FORMATS_MNIST_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/data/formats/labelled_images.h"

namespace keel {

// Says whether the folder has a file of one of those names, or four such files.
KEEL_API bool holds_mnist(const std::string& folder);

// Ten classes; `origin` says whether they are those of Fashion-MNIST. Throws Error naming the file,
// offset and reason; where a file is missing, both names that were tried. `max_bytes` as in
// read_idx.
KEEL_API LabelledSplits load_mnist(const std::string& folder, int64_t max_bytes = 0);

// The paths that load_mnist tries in this folder: eight names whether they exist or not, and files
// that it recognises.
KEEL_API std::vector<std::string> mnist_files(const std::string& folder);

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_MNIST_H
