// What --data takes beside MNIST's files: CIFAR-10's and tables, trained, saved, evaluated.
#include <filesystem>
#include <map>
#include <string>

#include <doctest/doctest.h>
#include <keel/graph/runtime/safetensors.h>

#include "cli/data_set.h"
#include "cli/tool.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

// Records that are red in odd classes and green in even ones: a set that is quick to learn.
std::string cifar_records(int count) {
  const auto plane = [](int value) { return std::string(1024, static_cast<char>(value)); };
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const int label = i % 2;
    bytes += static_cast<char>(label);
    bytes += plane(label == 1 ? 200 : 10) + plane(label == 1 ? 10 : 200) + plane(i % 16);
  }
  return bytes;
}

std::string table(int rows) {
  std::string text = "length,width,kind\n";
  for (int i = 0; i < rows; ++i) {
    const int kind = i % 3;
    text += std::to_string(kind) + "." + std::to_string(i % 7) + "," + std::to_string(2 - kind) +
            ".25," + std::to_string(kind) + "\n";
  }
  return text;
}

json train_and_save(const Words& words, const TempFolder& files) {
  Words all = {"train", "--summary", files.file("summary"), "--save", files.file("states")};
  all.insert(all.end(), words.begin(), words.end());
  const ToolResult result = run_tool(all);
  CAPTURE(join(all));
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  return read_json(files.file("summary"));
}

}  // namespace

TEST_CASE("data formats: cifar10 trains with every model and is evaluated") {
  const TempFolder data, files;
  data.write("data_batch_1.bin", cifar_records(40));
  data.write("test_batch.bin", cifar_records(20));
  for (const std::string model : {"lenet", "resnet", "transformer", "lstm", "mlp", "softmax"}) {
    CAPTURE(model);
    const json s = train_and_save(
        {"--data", data.path(), "--model", model, "--steps", "2", "--batch", "10"}, files);
    CHECK(s.at("data").get<std::string>().find("CIFAR-10") != std::string::npos);
    const ToolResult result =
        run_tool({"eval", "--load", files.file("states"), "--json", files.file("j")});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(read_json(files.file("j")).at("accuracy") == s.at("test_accuracy"));
  }
  CHECK(train_and_save({"--data", data.path(), "--epochs", "10", "--batch", "10", "--lr", "0.05"},
                       files)
            .at("test_accuracy") == 1);
  // Weights of colour images and grey ones.
  const ToolResult grey = run_tool({"eval", "--load", files.file("states"), "--data", "digits"});
  CHECK(grey.exit_code == 1);
  CHECK(grey.err.find("32x32x3") != std::string::npos);
  CHECK(grey.err.find("28x28x1") != std::string::npos);
  data.write("data_batch_1.bin", cifar_records(40).substr(1));
  const ToolResult cut = run_tool({"train", "--data", data.path(), "--steps", "1"});
  CHECK(cut.exit_code == 1);
  CHECK(cut.err.find("data_batch_1.bin") != std::string::npos);
}

TEST_CASE("data formats: feeding cifar10 is measured with a map over its colours") {
  const TempFolder data, files;
  data.write("data_batch_1.bin", cifar_records(40));
  data.write("test_batch.bin", cifar_records(20));
  const ToolResult result =
      run_tool({"bench", "feed", "--data", data.path(), "--map", "normalise", "--batch", "10",
                "--seconds", "0.01", "--backend", "cpu", "--json", files.file("j")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(read_json(files.file("j")).at("stages").at(2).at("name") == "map(normalise)");
}

TEST_CASE("data formats: another column of classes than the file's is told of as that") {
  const TempFolder files;
  std::string text = "length,kind,other\n", renamed = "length,sort,other\n";
  for (int i = 0; i < 30; ++i) {
    const std::string row =
        std::to_string(i % 7) + ".5," + std::to_string(i % 3) + "," + std::to_string(i % 2) + "\n";
    text += row;
    renamed += row;
  }
  const std::string path = files.write("t.csv", text);
  const std::string states = files.file("states");
  train_and_save({"--data", path, "--label", "kind", "--batch", "5", "--steps", "2"}, files);
  const std::string told =
      "--label: expected kind, as " + states + " was trained with, got other; drop the flag";
  for (const Words& words : std::vector<Words>{{"train", "--steps", "4", "--resume", states},
                                               {"eval", "--load", states}}) {
    for (const Words& data : {Words{}, Words{"--data", path}}) {
      Words all = words;
      all.insert(all.end(), {"--label", "other"});
      all.insert(all.end(), data.begin(), data.end());
      CAPTURE(join(all));
      const ToolResult result = run_tool(all);
      CHECK(result.exit_code == 1);
      CHECK_MESSAGE(result.err.find(told) != std::string::npos, result.err);
    }
  }
  // Where the column has another name there is no other one to be meant.
  const std::string moved = files.write("moved.csv", renamed);
  CHECK(run_tool({"eval", "--load", states, "--data", moved, "--label", "sort"}).exit_code == 0);
  CHECK(run_tool({"train", "--resume", states, "--steps", "4", "--data", moved, "--label", "sort",
                  "--quiet"})
            .exit_code == 0);
}

TEST_CASE("data formats: a table trains resumes and is evaluated") {
  const TempFolder files;
  const std::string path = files.write("t.csv", table(60));
  const Words base = {"--data", path, "--label", "kind", "--batch", "12", "--lr", "0.5"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), base.begin(), base.end());
    return more;
  };
  const json s = train_and_save(with({"--epochs", "200"}), files);
  CHECK(s.at("test_accuracy") == 1);
  CHECK(s.at("steps") == 800);  // 48 rows, 12 for the test
  CHECK(s.at("top_k") == 3);
  ToolResult result = run_tool({"eval", "--load", files.file("states"), "--json", files.file("j")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(read_json(files.file("j")).at("images") == 12);
  result = run_tool({"predict", "--load", files.file("states"), "--index", "3"});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  result = run_tool({"train", "--resume", files.file("states"), "--epochs", "201"});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
}

TEST_CASE("data formats: columns of a table are known by their names") {
  const TempFolder files;
  const std::string path = files.write("t.csv", table(60));
  const auto with_header = [&](const std::string& name, const std::string& header, bool swapped) {
    std::string text = header + "\n";
    for (const std::string& line : lines_of(table(60))) {
      if (line.starts_with("length")) continue;
      const size_t first = line.find(','), second = line.rfind(',');
      const std::string length = line.substr(0, first);
      const std::string width = line.substr(first + 1, second - first - 1);
      text += (swapped ? width + "," + length : length + "," + width) + line.substr(second) + "\n";
    }
    return files.write(name, text);
  };
  const std::string swapped = with_header("swapped.csv", "width,length,kind", true);
  const std::string other = with_header("other.csv", "length,depth,kind", false);
  const json s = train_and_save(
      {"--data", path, "--label", "kind", "--batch", "12", "--lr", "0.5", "--epochs", "200"},
      files);
  REQUIRE(s.at("test_accuracy") == 1);
  const std::string states = files.file("states");
  const auto loss_of = [&](const std::string& saved, const std::string& data) {
    const ToolResult result =
        run_tool({"eval", "--load", saved, "--data", data, "--json", files.file("j")});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return read_json(files.file("j")).at("loss").get<double>();
  };
  CHECK(loss_of(states, swapped) == loss_of(states, path));
  ToolResult result = run_tool({"predict", "--load", states, "--data", swapped, "--index", "3"});
  const ToolResult own = run_tool({"predict", "--load", states, "--index", "3"});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  CHECK(lines_of(result.out).back() == lines_of(own.out).back());
  result = run_tool({"eval", "--load", states, "--data", other});
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(result.err.find("column 2 of those beside the classes: expected 'width'") !=
                    std::string::npos,
                result.err);
  CHECK(result.err.find("got 'depth'") != std::string::npos);
  // Weights that begin a training would be those of other columns.
  const Words init = {"train",   "--label", "kind",   "--batch", "12",
                      "--steps", "1",       "--init", states};
  const auto begin_on = [&](const std::string& data) {
    Words words = init;
    words.insert(words.end(), {"--data", data});
    return run_tool(words);
  };
  CHECK(begin_on(path).exit_code == 0);
  CHECK(begin_on(other).exit_code == 0);
  result = begin_on(swapped);
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(result.err.find("expected 'length'") != std::string::npos, result.err);
  // A file of an older version does not tell.
  const keel::Safetensors saved = keel::read_safetensors(states);
  std::map<std::string, std::string> old = saved.metadata;
  CHECK(old.erase("columns") == 1);
  keel::write_safetensors(files.file("old"), saved.tensors, old);
  CHECK(run_tool({"eval", "--load", files.file("old"), "--data", other}).exit_code == 0);
  // Names may be no text in UTF-8.
  const TempFolder others;
  const std::string latin = with_header("latin.csv", "l\xe4nge,0xb,kind", false);
  train_and_save({"--data", latin, "--label", "kind", "--batch", "12", "--epochs", "20"}, others);
  const std::string turned = with_header("turned.csv", "0xb,l\xe4nge,kind", true);
  CHECK(loss_of(others.file("states"), turned) == loss_of(others.file("states"), latin));
}

TEST_CASE("data formats: tables that cannot be are refused") {
  const TempFolder files;
  const std::string path = files.write("t.csv", table(30));
  const auto refused = [&](Words words, int code, const std::string& part) {
    words.insert(words.begin(), {"train", "--steps", "1", "--batch", "5"});
    const ToolResult result = run_tool(words);
    CAPTURE(join(words));
    CHECK(result.exit_code == code);
    CHECK_MESSAGE(result.err.find(part) != std::string::npos, result.err);
  };
  refused({"--data", path}, 2, "--label");
  refused({"--data", path, "--label", "knd"}, 1,
          "--label: expected a column of " + path +
              ": 'length', 'width', 'kind', got 'knd'; did you mean 'kind'?");
  refused({"--data", files.file("none.csv"), "--label", "kind"}, 1, "none.csv");
  refused({"--data", "digits", "--label", "kind"}, 2, "--label");
  refused({"--data", files.write("big.csv", "x,kind\n1,2\n3,256\n"), "--label", "kind"}, 1, "256");
  for (const std::string name : {"1.0", "yes"}) {
    refused({"--data", files.write("c.csv", "x,kind\n1,0\n3," + name + "\n"), "--label", "kind"}, 1,
            "'kind': expected a class, a whole number from 0 to 255, got '" + name + "'");
  }
  refused({"--data", path, "--label", "kind", "--model", "lenet"}, 1, "4x4");
  refused({"--data", path, "--label", "kind", "--save", path}, 2, "--save");
}

TEST_CASE("data formats: what is no data set is told from what is one") {
  const TempFolder files, both, nothing;
  const auto refused = [&](Words words, int code, const Words& parts) {
    words.insert(words.begin(), {"train", "--steps", "1", "--batch", "5"});
    const ToolResult result = run_tool(words);
    CAPTURE(join(words));
    CHECK(result.exit_code == code);
    for (const std::string& part : parts)
      CHECK_MESSAGE(result.err.find(part) != std::string::npos, result.err);
  };
  for (const std::string name : {"t.csv.gz", "t.txt"}) {
    refused({"--data", files.write(name, table(30)), "--label", "kind"}, 2,
            {"--label", name, "a file whose name ends in .csv"});
    refused({"--data", files.file(name)}, 1, {name, "is not a folder", "FILE.csv"});
  }
  refused({"--data", files.file("gone")}, 1, {"No such file", "MNIST", "CIFAR-10", "FILE.csv"});
  refused({"--data", nothing.path()}, 1, {"holds no file of MNIST or CIFAR-10", "FILE.csv"});
  std::filesystem::create_directory(files.file("f.csv"));
  refused({"--data", files.file("f.csv")}, 1, {"f.csv: holds no file of MNIST or CIFAR-10"});
  const TempFolder part;
  part.write("a", idx_bytes({2, 28, 28}, std::string(1568, '\0')));
  part.write("b", idx_bytes({2}, std::string(2, '\0')));
  part.write("c", idx_bytes({7}, std::string(7, '\0')));
  refused({"--data", part.path()}, 1,
          {"two IDX files of images and two with as many labels",
           "got a (2 images), b (2 labels), c (7 labels)"});
  // Folders beside them are no files.
  for (int i = 0; i < 65; ++i)
    std::filesystem::create_directory(part.file("folder" + std::to_string(i)));
  refused({"--data", part.path()}, 1, {"got a (2 images), b (2 labels), c (7 labels)"});
  DataSet(10, 5).write_to(both);
  both.write("test_batch.bin", cifar_records(2));
  refused({"--data", both.path()}, 1, {"holds files of MNIST and of CIFAR-10"});
}

TEST_CASE("data formats: a path that a saved file cannot hold is refused before the training") {
  const TempFolder files;
  const std::string path = files.write("t\xff.csv", table(30));
  const Words words = {"train", "--data", path, "--label", "kind", "--batch", "5", "--steps", "1"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return run_tool(more);
  };
  CHECK(with({}).exit_code == 0);
  for (const std::string flag : {"--save", "--save-best"}) {
    const ToolResult result = with({flag, files.file("states")});
    CHECK(result.exit_code == 2);
    CHECK_MESSAGE(result.err.find("--data: expected UTF-8 text") != std::string::npos, result.err);
    CHECK(result.err.find("t\\xff.csv") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(files.file("states")));
  }
}

TEST_CASE("data formats: validation rows of a sorted table are of all its classes") {
  const TempFolder files;
  std::string text = "x,kind\n";
  for (int row = 0; row < 120; ++row)
    text += std::to_string(row) + ".5," + std::to_string(row / 40) + "\n";
  train_and_save({"--data", files.write("t.csv", text), "--label", "kind", "--batch", "10",
                  "--steps", "1", "--validation", "30"},
                 files);
  const ToolResult result = run_tool(
      {"eval", "--load", files.file("states"), "--split", "validation", "--json", files.file("j")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const json confusion = read_json(files.file("j")).at("confusion");
  for (const json& row : confusion) {
    int count = 0;
    for (const json& cell : row) count += cell.get<int>();
    CHECK(count >= 4);
  }
}

TEST_SUITE_END();
