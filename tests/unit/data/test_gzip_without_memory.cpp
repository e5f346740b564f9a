// zlib without memory: its calls go through those of this file, which fail when they are told to.
#include <dlfcn.h>
#include <string>
#include <zlib.h>

#include <doctest/doctest.h>

#include "keel/data/formats/byte_source.h"

#include "support/error_of.h"
#include "support/idx_bytes.h"
#include "support/temp_folder.h"

namespace {

bool refuses_to_begin = false, refuses_to_inflate = false;

template <class Function>
Function* zlib_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" int inflateInit2_(z_streamp stream, int bits, const char* version, int size) {
  if (refuses_to_begin) return Z_MEM_ERROR;
  return zlib_function<int(z_streamp, int, const char*, int)>("inflateInit2_")(stream, bits,
                                                                               version, size);
}

extern "C" int inflate(z_streamp stream, int flush) {
  if (refuses_to_inflate) return Z_MEM_ERROR;
  return zlib_function<int(z_streamp, int)>("inflate")(stream, flush);
}

TEST_SUITE_BEGIN("unit");

TEST_CASE("a gzip file that there is no memory to decompress is refused") {
  const keel_test::TempFolder temp;
  const std::string path = temp.write("abc.gz", keel_test::gzip("abc"));
  const auto read = [&] {
    char bytes[3];
    keel::ByteSource source(path);
    source.read(bytes, 3, "letters");
  };
  CHECK(keel_test::error_of(read).empty());
  refuses_to_begin = true;
  CHECK(keel_test::contains(keel_test::error_of(read), "not enough memory to decompress"));
  refuses_to_begin = false;
  refuses_to_inflate = true;
  CHECK(keel_test::contains(keel_test::error_of(read), "not enough memory to decompress"));
  refuses_to_inflate = false;
  CHECK(keel_test::error_of(read).empty());
}

TEST_SUITE_END();
