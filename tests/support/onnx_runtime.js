// Runs ONNX models with ONNX Runtime: node onnx_runtime.js FOLDER FIRST. FOLDER/cases.json lists
// what to run, from case FIRST on: [{model, inputs: [{name, dtype, dims, file}], outputs: [name]}];
// files hold raw elements in row-major order. Output i of case k becomes FOLDER/case_k/out_i, and
// FOLDER/results gets a line for each case as it ends: {error} or {outputs: [{dtype, dims}]}.
"use strict";
const fs = require("fs");
const path = require("path");
const ort = require("onnxruntime-node");

const arrays = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array,
  uint8: Uint8Array, bool: Uint8Array,
};

function readTensor(folder, input) {
  const bytes = fs.readFileSync(path.join(folder, input.file));
  const copy = new Uint8Array(bytes);  // a buffer of its own, aligned
  return new ort.Tensor(input.dtype, new arrays[input.dtype](copy.buffer), input.dims);
}

async function run(folder, one, k) {
  const session = await ort.InferenceSession.create(
      path.join(folder, one.model),
      {executionProviders: ["cpu"], intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 4});
  const feeds = {};
  for (const input of one.inputs) feeds[input.name] = readTensor(folder, input);
  const results = await session.run(feeds, one.outputs);
  const outputs = one.outputs.map((name, i) => {
    const tensor = results[name];
    const data = tensor.data;
    fs.writeFileSync(path.join(folder, `case_${k}/out_${i}`),
                     Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    return {dtype: tensor.type, dims: tensor.dims};
  });
  await session.release();
  return {outputs};
}

async function main(folder, first) {
  const cases = JSON.parse(fs.readFileSync(path.join(folder, "cases.json"), "utf8"));
  for (let k = first; k < cases.length; ++k) {
    let result;
    try {
      result = await run(folder, cases[k], k);
    } catch (error) {
      result = {error: String(error.message || error)};
    }
    fs.appendFileSync(path.join(folder, "results"), JSON.stringify(result) + "\n");
  }
}

main(process.argv[2], Number(process.argv[3]));
