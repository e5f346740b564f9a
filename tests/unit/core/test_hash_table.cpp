// HashTable: filled once, from arrays or a file, and what hostile files say.
#include <cstdio>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/read_budget.h"
#include "keel/core/resource/hash_table.h"

#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

std::string file_error(const std::string& text, TableKeys keys = TableKeys::kStrings) {
  const keel_test::TempFolder folder;
  const std::string path = folder.write("table.txt", text);
  const auto table = HashTable::make("from_file");
  const std::string error = error_of([&] { table->init_from_file(path, keys); });
  CHECK(table->initialised() == error.empty());
  return error;
}

}  // namespace

TEST_CASE("a table gives the values of integer keys and a default for others") {
  const auto table = HashTable::make("numbers");
  const std::vector<int64_t> keys = {30, -5, 7}, values = {1, 2, 3};
  table->init(keys, values);
  const auto use = table->use_on_host();
  CHECK(use->lookup(30, -1) == 1);
  CHECK(use->lookup(-5, -1) == 2);
  CHECK(use->lookup(7, -1) == 3);
  CHECK(use->lookup(8, -1) == -1);
  CHECK(use->lookup(8, 99) == 99);
  CHECK(table->size() == 3);
  CHECK(table->keys().data<int64_t>()[0] == -5);
  CHECK(table->values().data<int64_t>()[0] == 2);
}

TEST_CASE("a table gives the values of strings and takes no integer for one") {
  const auto table = HashTable::make("words");
  const std::vector<int64_t> values = {4, 5, 6};
  table->init({"red", "", "gr\xc3\xbcn"}, values);
  const auto use = table->use_on_host();
  CHECK(use->lookup("red", -1) == 4);
  CHECK(use->lookup("", -1) == 5);
  CHECK(use->lookup("gr\xc3\xbcn", -1) == 6);
  CHECK(use->lookup("Red", -1) == -1);
  CHECK(contains(error_of([&] { use->lookup(int64_t{4}, -1); }), "key: expected a string, got 4"));
  CHECK(contains(error_of([&] { table->keys(); }), "exist on the host only"));
}

TEST_CASE("a table is read behind init and filled once") {
  const auto table = HashTable::make("late");
  const int line = __LINE__ + 1;
  const std::string unread = error_of([&] { table->use_on_host(); });
  CHECK(contains(unread, "table 'late': Table not initialized"));
  CHECK(contains(unread, "test_hash_table.cpp:" + std::to_string(line)));
  const std::vector<int64_t> one = {1}, two = {1, 2}, twice = {1, 1};
  CHECK(contains(error_of([&] { table->init(two, one); }), "expected 2, one for each key"));
  CHECK(contains(error_of([&] { table->init(twice, two); }), "'1' twice"));
  CHECK(contains(error_of([&] { table->init({"a", "a"}, two); }), "'a' twice"));
  CHECK_FALSE(table->initialised());
  table->init(one, one);
  const std::string again = error_of([&] { table->init(two, two); });
  CHECK(contains(again, "table 'late': Table already initialized"));
  CHECK(table->use_on_host()->lookup(2, -1) == -1);
}

TEST_CASE("a name is of one table as long as that lives") {
  {
    const auto table = HashTable::make("only");
    CHECK(HashTable::find("only") == table);
    CHECK(contains(error_of([] { HashTable::make("only"); }), "there is a table of this one"));
  }
  CHECK(HashTable::find("only") == nullptr);
  CHECK(HashTable::make("only") != nullptr);
  CHECK(contains(error_of([] { HashTable::make(""); }), "expected a name"));
}

TEST_CASE("tables from files have the values or the numbers of the lines") {
  const keel_test::TempFolder folder;
  const std::string path = folder.write("words.txt", "red\r\ngreen\nblue");
  const auto words = HashTable::make("words");
  words->init_from_file(path, TableKeys::kStrings);
  CHECK(words->size() == 3);
  CHECK(words->use_on_host()->lookup("red", -1) == 0);
  CHECK(words->use_on_host()->lookup("blue", -1) == 2);
  folder.write("words.txt", "7\t-70\n-9223372036854775808\t9223372036854775807\n");
  const auto numbers = HashTable::make("numbers");
  numbers->init_from_file(path, TableKeys::kIntegers);
  CHECK(numbers->use_on_host()->lookup(7, -1) == -70);
  CHECK(numbers->use_on_host()->lookup(INT64_MIN, -1) == INT64_MAX);
}

TEST_CASE("hostile table files are refused with their line and leave the table empty") {
  CHECK(file_error("a\nb\n").empty());
  CHECK(file_error("").empty());
  const std::string twice = file_error("a\nb\na\n");
  CHECK(contains(twice, "line 3"));
  CHECK(contains(twice, "'a', which line 1 has"));
  CHECK(contains(twice, "table 'from_file'"));
  CHECK(contains(file_error("a\n\nb\n"), "line 2: expected a key, got none"));
  CHECK(contains(file_error("a\t1\n\t2\n"), "line 2: expected a key"));
  CHECK(contains(file_error("a\t1\nb\n"), "line 2: expected a key, a tab and a value"));
  CHECK(contains(file_error("a\nb\t2\n"), "line 2: expected a key alone"));
  CHECK(contains(file_error("a\t1\nb\tx\n"), "line 2: value"));
  CHECK(contains(file_error("a\t9223372036854775808\n"), "line 1: value"));
  CHECK(contains(file_error("a\t1\t2\n"), "line 1: value"));
  CHECK(contains(file_error("1\nx\n", TableKeys::kIntegers), "line 2: key"));
  // Two spellings of one number.
  CHECK(contains(file_error("1\n01\n", TableKeys::kIntegers),
                 "line 2: expected a key that is not there yet, got '01', which line 1 has"));
  CHECK(contains(error_of([] {
                   HashTable::make("none")->init_from_file("/nowhere/at/all", TableKeys::kStrings);
                 }),
                 "/nowhere/at/all"));
}

TEST_CASE("a table file that does not fit into the read budget is refused") {
  const uint64_t before = read_budget();
  set_read_budget(1600);
  std::string text;
  for (int i = 0; i < 20; ++i) text += std::to_string(i) + "\n";
  const std::string entries = file_error(text);
  const std::string bytes = file_error(std::string(2000, 'a'));
  set_read_budget(before);
  CHECK(contains(entries, "KEEL_READ_BUDGET_MIB"));
  CHECK_FALSE(bytes.empty());
}

TEST_CASE("users of a table share its place") {
  const auto table = HashTable::make("shared");
  const std::vector<int64_t> one = {1};
  table->init(one, one);
  const int line = __LINE__ + 1;
  auto here = table->use_on_host();
  const auto also_here = table->use_on_host();
  const int there = __LINE__ + 1;
  const std::string split = error_of([&] { table->use("npu", "model/lookup"); });
  CHECK(contains(split, "RESOURCE_SPLIT(table_init@npu, lookup@host)"));
  CHECK(contains(split, ": model/lookup ("));
  CHECK(
      contains(split, "test_hash_table.cpp:" + std::to_string(there) + ") reads the table on npu"));
  CHECK(contains(split, "test_hash_table.cpp:" + std::to_string(line) + ") on host"));
  CHECK(table->used_in("host").has_value());
  here.reset();
  CHECK(table->used_in("host").has_value());
}

TEST_CASE("a place is free again once its last user is gone") {
  const auto table = HashTable::make("moving");
  const std::vector<int64_t> one = {1};
  table->init(one, one);
  {
    const auto there = table->use("npu", "lookup");
    CHECK(contains(error_of([&] { table->use_on_host(); }),
                   "RESOURCE_SPLIT(table_init@npu, lookup@host)"));
  }
  CHECK(table->use_on_host()->lookup(1, -1) == 1);
}

TEST_SUITE_END();
