// Models without labels in the `keel` tool: `keel train --model vae|charlm`, and `keel sample`.
#ifndef KEEL_EXAMPLES_CLI_GENERATIVE_H
#define KEEL_EXAMPLES_CLI_GENERATIVE_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <keel/keel.h>

namespace keel_cli {

// What is trained, on what, and what is shown of it. The graph that it is made in must outlive it.
struct GenerativeTask {
  std::string origin;  // which data this is, in words
  keel::Value input;   // of a batch
  keel::Value loss;
  keel::Tensor items;  // to train on: values of the input, one a row
  double rate = 0;     // that Adam does well with
  // How well it does on data that it is not trained on.
  std::function<std::string(keel::Session&)> report;
  // Something that the trained model makes; empty where nothing is shown.
  std::function<std::string(keel::Session&)> picture;
};

const std::vector<std::string>& generative_names();
// `data` is a value of --data. Throws keel::Error for data that is no such data.
GenerativeTask make_vae_task(keel::Graph& graph, const std::string& data);
GenerativeTask make_charlm_task(keel::Graph& graph, const std::string& data);

// Nats a character that a bigram model needs for `text`: by the counts of pairs in `seen`, with one
// added for each byte that occurs there.
double bigram_loss(const std::string& seen, const std::string& text);

// Says whether the words of `keel train` have a --model of these.
bool names_generative_model(const std::vector<std::string>& words);
// `keel train` for them.
int run_train_generative(const std::vector<std::string>& words);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_GENERATIVE_H
