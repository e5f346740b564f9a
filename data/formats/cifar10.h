// CIFAR-10 in its binary form: data_batch_1.bin to data_batch_5.bin and test_batch.bin, each plain
// or with .gz. A record is the class, one byte, then 1,024 bytes of red, of green and of blue, each
// row by row. Where a folder has none of these names, plain files of whole records are taken: those
// for the test have "test" in their name, which nothing in them tells. Source:
// https://www.cs.toronto.edu/~kriz/cifar.html. Pure functions; any thread.
#ifndef KEEL_DATA_FORMATS_CIFAR10_H
#define KEEL_DATA_FORMATS_CIFAR10_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/data/formats/labelled_images.h"

namespace keel {

// Says whether the folder has a file of one of those names, or such files.
KEEL_API bool holds_cifar10(const std::string& folder);

// 32 x 32 images of three channels in ten classes; the training batches from 1 on that are there,
// at least one. Throws Error naming the file, offset and reason: one that is missing before
// another or beside the rest, a size that is no whole number of records, a class above 9, more than
// max_bytes in all of them together (0: 256 MiB, or 16 times their size where that is more).
KEEL_API LabelledSplits load_cifar10(const std::string& folder, int64_t max_bytes = 0);

// The paths that load_cifar10 tries in this folder, whether they exist or not, and files that it
// recognises.
KEEL_API std::vector<std::string> cifar10_files(const std::string& folder);

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_CIFAR10_H
