// Tables whose columns share a name gave the classes away, and the last rows of a sorted table,
// kept aside for validation, were all of one class.
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "keel/data/formats/csv.h"
#include "keel/data/formats/labelled_csv.h"

#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("data");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;
using keel_test::TempFolder;

}  // namespace

TEST_CASE("a header that names a column twice is refused with both places") {
  const TempFolder folder;
  const std::string path = folder.write("t.csv", "a,y,b,y\n1.5,0,2,0\n2.5,1,3,1\n");
  const std::string refusal =
      path + ": header: columns 2 and 4 are both named 'y'; give every column a name of its own";
  CHECK(error_of([&] { load_labelled_csv(path, "y"); }) == refusal);
  CHECK(error_of([&] { csv_columns(path); }) == refusal);
  // Wherever they are, and whichever column is asked for.
  const std::vector<CsvField> a = {{.name = "x", .dtype = f32, .columns = {"a"}}};
  CHECK(error_of([&] { read_csv(path, a); }) == refusal);
  const std::string first = folder.write("f.csv", "a, a ,y\n1,2,0\n3,4,1\n");
  CHECK(contains(error_of([&] { load_labelled_csv(first, "y"); }), "columns 1 and 2"));
  // Without a header the columns' names are their numbers.
  const std::string none = folder.write("n.csv", "1,1\n2,2\n");
  CHECK(read_csv(none, {{.name = "x"}}, {.header = false}).at(0).second.shape() == Shape{2, 2});
}

TEST_CASE("the last training rows of a sorted table are a sample of it") {
  const TempFolder folder;
  std::string text = "x,y\n";
  for (int row = 0; row < 300; ++row)
    text += std::to_string(row) + ".5," + std::to_string(row / 100) + "\n";
  const LabelledSplits splits = load_labelled_csv(folder.write("s.csv", text), "y");
  const LabelledImages& train = splits.train;
  REQUIRE(train.count() == 240);
  // A sample of 30 from three equal classes has fewer than 4 of one in less than 1 % of all draws.
  int of_class[3] = {};
  for (int64_t row = 210; row < 240; ++row) ++of_class[static_cast<int>(train.labels.at(row))];
  for (const int count : of_class) CHECK(count >= 4);
  // Each row is in one of the parts, with its own class.
  std::set<int> seen;
  for (const LabelledImages* part : {&splits.train, &splits.test}) {
    for (int64_t row = 0; row < part->count(); ++row) {
      const auto number = static_cast<int>(part->images.at(row));
      CHECK(part->labels.at(row) == number / 100);
      seen.insert(number);
    }
  }
  CHECK(seen.size() == 300);
}

TEST_SUITE_END();
