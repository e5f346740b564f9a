// `keel train --model vae|charlm` and `keel sample`.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <set>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/safetensors_bytes.h"
#include "support/sanitizer.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;

double loss_of(const nlohmann::json& row) { return row.at("loss").get<double>(); }

// The losses of the same training in launches of 1, 7 and all steps.
std::vector<nlohmann::json> train_in_launches(const Words& words) {
  const TempFolder files;
  std::string expected;
  for (const char* size : {"1", "7", "100"}) {
    CAPTURE(size);
    Words all = {"train", "--quiet", "--loop-size", size, "--metrics", files.file(size)};
    all.insert(all.end(), words.begin(), words.end());
    const ToolResult result = run_tool(all);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    if (expected.empty()) expected = read_text(files.file(size));
    CHECK(read_text(files.file(size)) == expected);
  }
  return read_json_lines(files.file("7"));
}

TEST_CASE("keel train raises the bound of a vae whatever the loop size and shows samples") {
  for (const char* backend : {"cpu", "npu"}) {
    CAPTURE(std::string(backend));
    const Words words = {"--model", "vae",     "--data", small_data().path(), "--backend",
                         backend,   "--batch", "20",     "--steps",           "40"};
    const auto rows = train_in_launches(words);
    REQUIRE(rows.size() == 40);
    // A pixel that may be anything costs log 2.
    CHECK(loss_of(rows.front()) > 0.8 * 784 * std::log(2.0));
    CHECK(loss_of(rows.back()) < 0.6 * loss_of(rows.front()));
    Words shown = {"train"};
    shown.insert(shown.end(), words.begin(), words.end());
    const ToolResult result = run_tool(shown);
    CHECK(result.exit_code == 0);
    CHECK(result.out.find("test bound -") != std::string::npos);
    CHECK(result.out.find("nats an image, over 20 images\n") != std::string::npos);
    CHECK(lines_of(result.out).size() > 14);
  }
}

// Each of "abcdefgh" follows the one before it, so after a while nothing is left to guess.
TEST_CASE("a charlm learns an alphabet and keel sample writes it") {
  const TempFolder files;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "abcdefgh";
  std::ofstream(files.file("text"), std::ios::binary) << text;
  const Words words = {"--model",   "charlm", "--data",  files.file("text"),
                       "--backend", "cpu",    "--batch", "8",
                       "--steps",   "30",     "--lr",    "0.01"};
  const auto rows = train_in_launches(words);
  CHECK(loss_of(rows.front()) == doctest::Approx(std::log(256.0)).epsilon(0.15));
  CHECK(loss_of(rows.back()) < 0.2);
  const std::string states = files.file("states");
  Words saved = {"train", "--average", "0.5", "--save", states};
  saved.insert(saved.end(), words.begin(), words.end());
  const ToolResult result = run_tool(saved);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  // 256 of the 320 characters held out are predicted, in 4 windows.
  CHECK(result.out.find("nats a character, over 256 of them\n") != std::string::npos);
  // Each of the 8 letters is followed by the next one about 360 times in the 2,880 characters seen.
  // The bigram model adds 1 for each letter, so a character costs log((360 + 8) / (360 + 1)) nats.
  CHECK(result.out.find("a bigram model needs 0.0192 nats") != std::string::npos);
  const auto sample = [&](const Words& more) {
    Words all = {"sample", "--load", states, "--backend", "cpu", "--chars", "20"};
    all.insert(all.end(), more.begin(), more.end());
    return run_tool(all);
  };
  CHECK(sample({"--prompt", "cde", "--temperature", "0"}).out == "cdefghabcdefghabcdefgha\n");
  const std::string drawn = sample({"--seed", "1", "--temperature", "30"}).out;
  CHECK(sample({"--seed", "1", "--temperature", "30"}).out == drawn);
  CHECK(sample({"--seed", "2", "--temperature", "30"}).out != drawn);
}

// The alphabet's first letters, again and again.
std::string letters(const TempFolder& files) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "abcdefgh";
  return files.write("letters", text);
}

// The summary of a training that must go well.
nlohmann::json train_generative(const TempFolder& files, const Words& words) {
  const ToolResult result =
      run_tool(with({"train", "--quiet", "--summary", files.file("summary")}, words));
  CAPTURE(join(words));
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  return read_json(files.file("summary"));
}

struct NamedTraining {
  std::string name;
  Words words;
};

// Nats that a character costs by the counts of pairs in what is in front of `begin`, one added to
// each pair of characters that occur there: mean over `count` characters behind text[begin].
double bigram_nats(const std::string& text, size_t begin, size_t count) {
  std::map<char, std::map<char, double>> pairs;
  std::map<char, double> all;
  const std::string seen = text.substr(0, begin);
  for (size_t i = 0; i + 1 < seen.size(); ++i) {
    pairs[seen[i]][seen[i + 1]] += 1;
    all[seen[i]] += 1;
  }
  const auto symbols = static_cast<double>(std::set<char>(seen.begin(), seen.end()).size());
  double nats = 0;
  for (size_t i = begin; i < begin + count; ++i)
    nats += std::log(all[text[i]] + symbols) - std::log(pairs[text[i]][text[i + 1]] + 1);
  return nats / static_cast<double>(count);
}

// Returns the text with one space where there are several: lines of tables are filled up with them,
// and a model of 500 steps may write little else.
std::string without_filling(std::string text) {
  const auto both_spaces = [](char a, char b) { return a == ' ' && b == ' '; };
  text.erase(std::unique(text.begin(), text.end(), both_spaces), text.end());
  return text;
}

// The texts of this project, with their last tenth held out.
TEST_CASE("a charlm needs fewer nats for the project's own READMEs than a bigram model") {
  if (kSanitized) {
    MESSAGE("keel test skipped: whole trainings take too long under a sanitizer");
    return;
  }
  const TempFolder files;
  std::string text;
  for (const char* room :
       {"", "core/", "graph/", "ops/", "backends/", "data/", "examples/", "tests/"})
    text += without_filling(read_text(std::string(KEEL_SOURCE_DIR) + "/" + room + "README.md"));
  REQUIRE(text.size() > 50000);
  const std::string states = files.file("states");
  const auto summary = train_generative(
      files, {"--model", "charlm", "--data", files.write("text", text), "--backend", "npu",
              "--batch", "16", "--steps", "500", "--save", states});
  constexpr size_t kWindow = 64;
  const size_t begin = text.size() - text.size() / 10;
  const size_t windows = (text.size() - begin - 1) / kWindow;
  const double bigram = bigram_nats(text, begin, windows * kWindow);
  const double loss = summary.at("test_loss").get<double>();
  MESSAGE("charlm " << loss << " nats a character, bigram model " << bigram);
  CHECK(loss < bigram);
  const ToolResult sample =
      run_tool({"sample", "--load", states, "--prompt", "The ", "--chars", "1000"});
  REQUIRE_MESSAGE(sample.exit_code == 0, sample.err);
  MESSAGE(sample.out);
  CHECK(sample.out.starts_with("The "));
  CHECK(sample.out.size() == 4 + 1000 + 1);
  // Words of the length that words have.
  int64_t words = 0, letters = 0;
  for (size_t i = 1; i < sample.out.size(); ++i) {
    if (sample.out[i] != ' ')
      ++letters;
    else if (sample.out[i - 1] != ' ')
      ++words;
  }
  CHECK(words > 50);
  CHECK(letters >= 2 * words);
}

// 10 steps an epoch, and 11.
std::vector<NamedTraining> trainings(const TempFolder& files) {
  return {{"vae", {"--model", "vae", "--data", small_data().path(), "--batch", "20"}},
          {"charlm", {"--model", "charlm", "--data", letters(files), "--batch", "16"}}};
}

TEST_CASE("a vae and a charlm that are resumed end as one training does") {
  const TempFolder files;
  for (const NamedTraining& training : trainings(files)) {
    const std::string& name = training.name;
    const Words& words = training.words;
    CAPTURE(name);
    const Words metrics = {"--metrics", files.file("metrics")};
    const auto whole = train_generative(files, with(with(words, metrics), {"--steps", "14"}));
    const std::string expected = read_text(files.file("metrics"));
    for (const char* stop : {"4", "10", "13"}) {
      CAPTURE(stop);
      const std::string states = files.file("states");
      train_generative(files, with(with(words, metrics), {"--steps", stop, "--save", states}));
      const auto rest =
          train_generative(files, with(metrics, {"--resume", states, "--steps", "14"}));
      CHECK(rest.at("state_sha256") == whole.at("state_sha256"));
      CHECK(rest.at("test_loss") == whole.at("test_loss"));
      CHECK(rest.at("test_accuracy").is_null());
      CHECK(rest.at("model") == name);
      CHECK(read_text(files.file("metrics")) == expected);
    }
  }
}

TEST_CASE("a vae and a charlm are kept on the device and train the same when streamed") {
  const TempFolder files;
  for (const NamedTraining& training : trainings(files)) {
    const std::string& name = training.name;
    const Words& words = training.words;
    CAPTURE(name);
    const auto cached = train_generative(files, with(words, {"--steps", "12"}));
    const auto streamed = train_generative(files, with(words, {"--steps", "12", "--no-cache"}));
    CHECK(cached.at("feed").get<std::string>().starts_with("device cache, 0."));
    CHECK(streamed.at("feed") == "streamed");
    CHECK(cached.at("state_sha256") == streamed.at("state_sha256"));
  }
}

TEST_CASE("a vae and a charlm whose states are no numbers do not replace a file of finite ones") {
  const TempFolder files;
  for (const NamedTraining& training : trainings(files)) {
    const std::string& name = training.name;
    const Words& words = training.words;
    CAPTURE(name);
    const std::string states = files.file(name);
    const Words saving = with(words, {"--steps", "8", "--save", states});
    train_generative(files, saving);
    const std::string good = read_text(states);
    const Words wild = with(with({"train", "--summary", files.file("summary")}, saving),
                            {"--optimizer", "sgd", "--lr", "1e6"});
    const ToolResult result = run_tool(wild);
    CHECK(result.exit_code == 1);
    CHECK_MESSAGE(result.err.find("state '") != std::string::npos, result.err);
    CHECK(read_text(states) == good);
    CHECK(read_json(files.file("summary")).at("first_non_finite_step").get<int>() <= 8);
    CHECK(run_tool(with(wild, {"--allow-non-finite"})).exit_code == 0);
    CHECK(read_text(states) != good);
  }
  const ToolResult sample = run_tool({"sample", "--load", files.file("charlm")});
  CHECK(sample.exit_code == 1);
  CHECK(sample.out.empty());
  CHECK(sample.err.find("keel inspect") != std::string::npos);
}

TEST_CASE("a vae and a charlm report what their averaged weights are worth") {
  const TempFolder files;
  for (const NamedTraining& training : trainings(files)) {
    const std::string& name = training.name;
    const Words& words = training.words;
    CAPTURE(name);
    const Words some = with(words, {"--steps", "8"});
    const auto raw = train_generative(files, some);
    const auto newest = train_generative(files, with(some, {"--average", "0"}));
    const auto average = train_generative(files, with(some, {"--average", "0.9999"}));
    CHECK(average.at("train_loss") == raw.at("train_loss"));
    CHECK(loss_of({{"loss", newest.at("test_loss")}}) ==
          doctest::Approx(raw.at("test_loss").get<double>()).epsilon(1e-4));
    // Earlier weights are worse.
    CHECK(average.at("test_loss").get<double>() > 1.01 * raw.at("test_loss").get<double>());
  }
}

TEST_CASE("a vae and a charlm are judged by their loss") {
  const TempFolder files;
  for (const NamedTraining& training : trainings(files)) {
    const std::string& name = training.name;
    const Words& words = training.words;
    CAPTURE(name);
    // No later loss is less by so much, so the first judgement stays the best.
    const Words judged =
        with(words, {"--validation", "20", "--steps", "40", "--eval-every", "2", "--patience", "2",
                     "--min-gain", "1000", "--keep-best", "--save", files.file("kept")});
    const auto summary = train_generative(files, judged);
    CHECK(summary.at("metric") == "loss");
    CHECK(summary.at("judged_on") == "validation");
    CHECK(summary.at("stopped_by") == "patience");
    REQUIRE(summary.at("history").size() == 3);
    CHECK(summary.at("best_step") == 2);
    CHECK(summary.at("best_value") == summary.at("history").at(0).at("loss"));
    CHECK(summary.at("history").at(0).at("accuracy").is_null());
    const auto again = train_generative(
        files, with(words, {"--init", files.file("kept"), "--lr", "0", "--steps", "1"}));
    CHECK(again.at("init").at("missing").empty());
    if (name == "charlm") CHECK(again.at("test_loss") == summary.at("test_loss"));
  }
}

TEST_CASE("keel sample draws no byte that the text has not") {
  const TempFolder files;
  const std::string states = files.file("states");
  train_generative(
      files, {"--model", "charlm", "--data", letters(files), "--steps", "1", "--save", states});
  const ToolResult drawn = run_tool(
      {"sample", "--load", states, "--temperature", "100", "--chars", "60", "--prompt", "a"});
  REQUIRE_MESSAGE(drawn.exit_code == 0, drawn.err);
  CHECK(drawn.out.size() == 62);
  CHECK_MESSAGE(drawn.out.find_first_not_of("abcdefgh") == 61, drawn.out);
  // One digit of the metadata, of the same length.
  std::string bytes = read_text(states);
  const std::string key = "\"symbols\":\"";
  const size_t at = bytes.find(key);
  REQUIRE(at != std::string::npos);
  bytes[at + key.size()] = 'x';
  const ToolResult damaged =
      run_tool({"sample", "--load", files.write("damaged", bytes), "--chars", "1"});
  CHECK(damaged.exit_code == 1);
}

TEST_CASE("keel sample computes as the file was trained unless flags say otherwise") {
  const TempFolder files;
  const std::string states = files.file("states");
  train_generative(files, {"--model", "charlm", "--data", letters(files), "--steps", "1",
                           "--precision", "mixed_bf16", "--placement", "mixed", "--save", states});
  const auto sample = [](Words words, const std::string& preset) {
    words.insert(words.begin(), {"sample", "--chars", "4", "--load"});
    return run_tool(words, {{"KEEL_NPU_PRESET", preset}});
  };
  CHECK(sample({states}, "ascend910b1").exit_code == 0);
  // This device has no bf16.
  const ToolResult refused = sample({states}, "ascend910");
  CHECK(refused.exit_code == 2);
  CHECK_MESSAGE(refused.err.find("mixed_bf16: needs bf16") != std::string::npos, refused.err);
  const ToolResult chosen = sample({states, "--precision", "fp32"}, "ascend910");
  CHECK_MESSAGE(chosen.exit_code == 0, chosen.err);
  // A policy that there is none of shows that the file's is read.
  const std::string unknown = files.write(
      "unknown", with_right_checksums(replaced(read_text(states), "\"placement\":\"mixed\"",
                                               "\"placement\":\"mixup\"")));
  const ToolResult wrong = sample({unknown}, "ascend910b1");
  CHECK(wrong.exit_code == 1);
  CHECK_MESSAGE(
      wrong.err.find("placement: expected one of full, mixed, got 'mixup'") != std::string::npos,
      wrong.err);
  CHECK(sample({unknown, "--placement", "full"}, "ascend910b1").exit_code == 0);
}

TEST_CASE("keel sample shows control characters on a terminal and does not obey them") {
  const TempFolder files;
  std::string text;
  while (text.size() < 2000) text += "\x1b[2Jab\n";
  const std::string states = files.file("states");
  train_generative(files, {"--model", "charlm", "--data", files.write("text", text), "--steps", "1",
                           "--save", states});
  const Words words = {"sample", "--load", states, "--temperature", "100", "--chars", "80"};
  const std::string plain = run_tool(words).out;
  REQUIRE(plain.find('\x1b') != std::string::npos);
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(master >= 0);
  REQUIRE(grantpt(master) == 0);
  REQUIRE(unlockpt(master) == 0);
  const std::string terminal = ptsname(master);
  // Held open, so that what was written can be read afterwards.
  const int slave = open(terminal.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(slave >= 0);
  CHECK(run_bash(R"("$0" "$@" > )" + terminal, words).exit_code == 0);
  std::string shown(4096, '\0');
  const ssize_t size = read(master, shown.data(), shown.size());
  close(slave);
  close(master);
  REQUIRE(size > 0);
  shown.resize(static_cast<size_t>(size));
  CHECK(shown.find('\x1b') == std::string::npos);
  CHECK(shown.find("\\x1b") != std::string::npos);
}

TEST_CASE("the flags of keel train are the same whatever it trains") {
  const std::string help = run_tool({"train", "--help"}).out;
  for (const char* model : {"vae", "charlm", "mlp"})
    CHECK(run_tool({"train", "--model", model, "--help"}).out == help);
  CHECK(help.find("|lstm|vae|charlm") != std::string::npos);
  // One list of optimizers, in all commands.
  const std::string optimizers = "--optimizer sgd|momentum|adam|adamw|rmsprop|lion|adagrad|lamb";
  CHECK(help.find(optimizers) != std::string::npos);
  CHECK(run_tool({"graph", "--help"}).out.find(optimizers) != std::string::npos);
}

TEST_CASE("a closed standard output ends a training of a charlm that saves nothing") {
  const TempFolder files;
  const ToolResult result =
      run_bash(R"("$0" "$@" | head -1 > /dev/null; exit ${PIPESTATUS[0]})",
               {"train", "--model", "charlm", "--data", letters(files), "--epochs", "100000"});
  CHECK(result.exit_code == 128 + SIGPIPE);
}

TEST_CASE("generative models refuse what they are not about") {
  const TempFolder files;
  const std::string text = letters(files);
  files.write("short", "too short");
  files.write("table.csv", "a,y\n1,0\n2,1\n");
  const auto check = [](const Words& words, int exit_code, const std::string& message) {
    CAPTURE(join(words));
    const ToolResult result = run_tool(words);
    CHECK(result.exit_code == exit_code);
    CAPTURE(result.err);
    CHECK(result.err.find(message) != std::string::npos);
  };
  const Words vae = {"train", "--model", "vae", "--steps", "1"};
  const Words charlm = {"train", "--model", "charlm", "--data", text, "--steps", "1"};
  check({"train", "--model", "charlm"}, 2, "--data: expected a text file for charlm");
  check({"train", "--model", "charlm", "--data", files.file("short")}, 1,
        "a text of at least 1280 bytes");
  check({"train", "--model", "charlm", "--data", files.file("none")}, 1, "cannot open");
  check({"train", "--model", "charlmm"}, 2, "'charlm'?");
  check(with(vae, {"--epochs", "1"}), 2, "--epochs is given");
  check(with(vae, {"--data", small_data().path(), "--batch", "201"}), 1,
        "at most the 200 training images");
  check(with(vae, {"--data", files.file("table.csv")}), 2, "is a table, and vae takes images");
  for (const char* name : {"data_batch_1.bin", "test_batch.bin"})
    files.write(name, std::string(3073, '\1'));
  check(with(vae, {"--data", files.path(), "--batch", "1"}), 1,
        files.path() + ": expected grey images of 28x28 for vae, got images of 32x32x3");
  check(with(vae, {"--metric", "accuracy", "--keep-best"}), 2,
        "--metric: accuracy is about classes, and vae has none");
  check(with(charlm, {"--top-k", "3"}), 2, "--top-k: is about classes, and charlm has none");
  check(with(charlm, {"--label", "y"}), 2, "--label: is about the classes of a table");
  check(with(charlm, {"--save", text}), 2, "--save");
  check(with(charlm, {"--validation", "200"}), 1, "training windows");
  check({"sample"}, 2, "--load: expected a file of a trained charlm");
  check({"sample", "--load", files.file("none")}, 1, "cannot open");
  const std::string states = files.file("states");
  train_generative(
      files, with({vae.begin() + 1, vae.end()}, {"--data", small_data().path(), "--save", states}));
  check({"sample", "--load", states}, 1, "one of the model vae");
  check({"eval", "--load", states}, 1, "is of the model vae, which has no classes");
  check({"train", "--resume", states, "--model", "charlm"}, 1, "--model: expected vae");
}

TEST_CASE("a word that is the value of another flag chooses no model") {
  const TempFolder files;
  const ToolResult result = run_bash(
      "cd " + files.path() + R"( && "$0" "$@")",
      {"train", "--data", small_data().path(), "--steps", "1", "--metrics", "--model=vae"});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.out.find("training softmax") != std::string::npos);
  CHECK(read_json_lines(files.file("--model=vae")).size() == 1);
}

TEST_CASE("a text beyond the read budget is refused before it is read") {
  const TempFolder files;
  const std::string text = files.write("text", std::string(size_t{3} << 19, 'a'));
  const ToolResult result =
      run_tool({"train", "--model", "charlm", "--data", text, "--read-budget", "1"});
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(result.err.find("the text of 1572864 bytes") != std::string::npos, result.err);
}

}  // namespace

TEST_CASE("keel sample fails where a logit is no number and says what weights it takes") {
  const TempFolder files;
  const std::string states = files.file("states");
  const ToolResult trained =
      run_tool({"train", "--quiet", "--model", "charlm", "--data", letters(files), "--backend",
                "cpu", "--batch", "8", "--steps", "1", "--average", "0.5", "--save", states});
  REQUIRE_MESSAGE(trained.exit_code == 0, trained.err);
  const Words words = {"--backend", "cpu", "--chars", "3"};
  const ToolResult sound = run_tool(with({"sample", "--load", states}, words));
  CHECK(sound.exit_code == 0);
  CHECK(sound.err == "charlm from " + states + ", averaged weights\n");
  // Weights that are finite, of products beyond f32.
  std::string bytes = read_text(states);
  const std::string text = safetensors_header(bytes);
  const nlohmann::json header = nlohmann::json::parse(text);
  size_t changed = 0;
  for (const auto& entry : header.items()) {
    const std::string& name = entry.key();
    if (name.rfind("logits", 0) != 0 || name.find("weight") == std::string::npos) continue;
    const size_t begin = entry.value().at("data_offsets")[0],
                 end = entry.value().at("data_offsets")[1];
    const float large = 3e38f;
    for (size_t at = begin; at + 4 <= end; at += 4)
      std::memcpy(bytes.data() + 8 + text.size() + at, &large, 4);
    ++changed;
  }
  REQUIRE(changed > 0);
  const std::string broken = files.write("broken", with_right_checksums(bytes));
  for (const char* temperature : {"0", "0.8"}) {
    const ToolResult result =
        run_tool(with({"sample", "--load", broken, "--temperature", temperature}, words));
    CHECK(result.exit_code == 1);
    CHECK_MESSAGE(
        result.err.find("keel sample: character 1: the logit of symbol 0 is ") != std::string::npos,
        result.err);
  }
}

TEST_SUITE_END();
