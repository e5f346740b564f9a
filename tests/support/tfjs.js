// Runs graph models with TensorFlow.js: node tfjs.js FOLDER FIRST. FOLDER/cases.json lists what to
// run, from case FIRST on: [{topology, constants: [{name, dtype, shape, values}], feeds: [the same],
// outputs: [name]}]. FOLDER/results gets a line for each case as it ends: {error} or
// {outputs: [{dtype, shape, values}]}. Numbers that JSON has not are texts.
"use strict";
const fs = require("fs");
const path = require("path");
const tf = require("@tensorflow/tfjs");

function number(value) {
  return Number.isFinite(value) ? value : String(value);
}

function elements(tensor) {
  if (tensor.dtype === "int32") return new Uint8Array(Int32Array.from(tensor.values).buffer);
  if (tensor.dtype === "bool") return Uint8Array.from(tensor.values);
  return new Uint8Array(Float32Array.from(tensor.values, Number).buffer);
}

async function run(one) {
  const parts = one.constants.map(elements);
  const data = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => (data.set(part, at), at + part.length), 0);
  const specs = one.constants.map(({name, dtype, shape}) => ({name, dtype, shape}));
  const model = await tf.loadGraphModel(tf.io.fromMemory(
      {modelTopology: one.topology, weightSpecs: specs, weightData: data.buffer}));
  const feeds = {};
  for (const feed of one.feeds) feeds[feed.name] = tf.tensor(feed.values, feed.shape, feed.dtype);
  const results = await model.executeAsync(feeds, one.outputs);
  const outputs = [];
  for (const result of Array.isArray(results) ? results : [results])
    outputs.push({dtype: result.dtype, shape: result.shape,
                  values: Array.from(await result.data(), (value) => number(Number(value)))});
  model.dispose();
  return {outputs};
}

async function main(folder, first) {
  await tf.setBackend("cpu");
  const cases = JSON.parse(fs.readFileSync(path.join(folder, "cases.json"), "utf8"));
  for (let k = first; k < cases.length; ++k) {
    let result;
    try {
      result = await run(cases[k]);
    } catch (error) {
      result = {error: String(error.message || error)};
    }
    fs.appendFileSync(path.join(folder, "results"), JSON.stringify(result) + "\n");
  }
}

main(process.argv[2], Number(process.argv[3]));
