#include "cli/data_set.h"

#include <stdexcept>
#include <zlib.h>

#include "keel/data/formats/digits.h"

namespace keel_test {
namespace {

std::string bytes_of(const keel::Tensor& tensor) {
  const auto values = tensor.data<uint8_t>();
  return {values.begin(), values.end()};
}

}  // namespace

std::string idx_bytes(const std::vector<uint32_t>& dims, const std::string& data) {
  std::string bytes{0, 0, 8, static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((dim >> shift) & 0xffu);
  }
  return bytes + data;
}

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2 failed");
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw std::runtime_error("deflate failed");
  return out;
}

DataSet::DataSet(int64_t train, int64_t test) : train_count(train), test_count(test) {
  const auto digits = keel::make_digits({.seed = 5, .train_count = train, .test_count = test});
  train_pixels = bytes_of(digits.train.images);
  train_classes = bytes_of(digits.train.labels);
  test_pixels = bytes_of(digits.test.images);
  test_classes = bytes_of(digits.test.labels);
}

void DataSet::write_to(const TempFolder& folder) const {
  const auto train = static_cast<uint32_t>(train_count);
  const auto test = static_cast<uint32_t>(test_count);
  folder.write(kTrainImages, idx_bytes({train, 28, 28}, train_pixels));
  folder.write(kTrainLabels, idx_bytes({train}, train_classes));
  folder.write(kTestImages, idx_bytes({test, 28, 28}, test_pixels));
  folder.write(kTestLabels, idx_bytes({test}, test_classes));
}

}  // namespace keel_test
