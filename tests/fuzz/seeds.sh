#!/usr/bin/env bash
# Makes the seeds of the fuzz targets, small files of each kind: tests/fuzz/seeds.sh KEEL FOLDER
# KEEL is the tool; each target's seeds go to FOLDER/<target>.
set -eu
keel=$1
out=$2
rm -rf "$out"
mkdir -p "$out"/{json,graph,safetensors,npy,idx,csv,onnx,graphdef,python}

printf '{"a":[1,-2.5e3,true,null,"\\u00e9\\n"],"b":{"c":{}}}' > "$out/json/values"
printf '[[[[[[[[]]]]]]],1e308,18446744073709551615,-9223372036854775808]' > "$out/json/limits"
printf '"\\ud83d\\ude00 \xc3\xa9"' > "$out/json/text"

# lstm has a loop with a body.
for model in softmax lstm; do
  "$keel" graph --model $model > "$out/graph/$model"
done
printf 'graph {\n  %%0 = constant() {value=i64[2, 1](-3, 4)} : i64[2, 1] @ "model.cpp":12 in "encoder/0" as "loss"\n  outputs (%%0)\n}\n' \
  > "$out/graph/constant"

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
header='{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
printf "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0%s\\1\\2\\3\\4" "$header" > "$out/safetensors/plain"
printf '1,2,3,0\n4,5,6,1\n7,8,9,0\n2,1,0,1\n3,2,1,0\n' > "$work/table.csv"
"$keel" train --quiet --data "$work/table.csv" --label 3 --batch 1 --steps 1 --save "$out/safetensors/saved"

npy() {  # NAME DESCR SHAPE BYTES
  local header="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
  while [ $(((${#header} + 11) % 64)) -ne 0 ]; do header+=' '; done
  printf "\\x93NUMPY\\1\\0\\x$(printf %02x $((${#header} + 1)))\\0%s\\n$4" "$header" > "$out/npy/$1"
}
npy floats '<f4' '(2, 1)' '\0\0\200\77\0\0\0\100'
npy bytes '|u1' '(3,)' 'abc'
npy scalar '<i8' '()' '\7\0\0\0\0\0\0\0'
npy bools '|b1' '(0,)' ''

printf '\3\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\1abcd' > "$out/idx/images"
printf '\1\0\0\10\1\0\0\0\3abc' > "$out/idx/labels"
{ printf '\1'; printf '\0\0\10\1\0\0\0\3abc' | gzip -n; } > "$out/idx/compressed"

printf 'a,b,label\n1,2.5,0\n-3,nan,1\n' > "$out/csv/table"
printf '"a ""b""","c\nd"\r\n1,inf\r\n' > "$out/csv/quotes"
printf '1\n2\n3' > "$out/csv/column"

"$keel" export --load "$out/safetensors/saved" --out "$out/onnx/model.onnx"
"$keel" export --load "$out/safetensors/saved" --out "$out/onnx/gradient.onnx" --train --batch 2

# A frozen graph, as text and in the wire form; one that trains, with its variable; calls of functions.
cat > "$out/graphdef/frozen.pbtxt" <<'END'
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: -1 } dim { size: 2 } } } } }
node { name: "w" op: "Const" attr { key: "value" value { tensor { dtype: DT_FLOAT
       tensor_shape { dim { size: 2 } dim { size: 1 } } tensor_content: "\000\000\200?\000\000\000@" } } } }
node { name: "y" op: "MatMul" input: "x" input: "w" attr { key: "transpose_a" value { b: false } } }
END
printf '\012\051\012\001c\022\005Const\052\035\012\005value\022\024B\022\010\001\022\004\022\002\010\002\042\010\000\000\200?\000\000\000@\012\013\012\001y\022\003Neg\032\001c' \
  > "$out/graphdef/wire"
cat > "$out/graphdef/training.pbtxt" <<'END'
node { name: "w" op: "VariableV2" }
node { name: "i" op: "Const" attr { key: "value" value { tensor { dtype: DT_FLOAT float_val: 2 tensor_shape { } } } } }
node { name: "w/Assign" op: "Assign" input: "w" input: "i" }
node { name: "g" op: "Square" input: "w" }
node { name: "apply" op: "ApplyGradientDescent" input: "w" input: "i" input: "g" }
node { name: "train" op: "NoOp" input: "^apply" }
END
cat > "$out/graphdef/functions.pbtxt" <<'END'
node { name: "n" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } attr { key: "shape" value { shape { } } } }
node { name: "y" op: "While" input: "n" attr { key: "cond" value { func { name: "c" } } } attr { key: "body" value { func { name: "b" } } } }
library {
  function { signature { name: "c" input_arg { name: "i" } output_arg { name: "r" } }
    node_def { name: "t" op: "Const" attr { key: "value" value { tensor { dtype: DT_INT32 int_val: 9 tensor_shape { } } } } }
    node_def { name: "l" op: "Less" input: "i" input: "t:output:0" } ret { key: "r" value: "l:z:0" } }
  function { signature { name: "b" input_arg { name: "i" } output_arg { name: "r" } }
    node_def { name: "a" op: "AddV2" input: "i" input: "i" } ret { key: "r" value: "a:z:0" } }
}
END
cat > "$out/graphdef/version1.pbtxt" <<'END'
node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } attr { key: "shape" value { shape { } } } }
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { } } } }
node { name: "s" op: "Switch" input: "x" input: "p" }
node { name: "n" op: "Neg" input: "s:1" }
node { name: "m" op: "Merge" input: "s" input: "n" attr { key: "N" value { i: 2 } } }
END

cat > "$out/python/imports" <<'END'
import tensorflow.compat.v1 as tf, os
from npu_bridge.npu_init import (NPURunConfig as Config,)
from npu_bridge.npu_init import *
layers = tf.layers; x = layers.dense(f'''{1}
''' r'\'', 1.5e-3, activation=tf.nn.relu)
END
cat > "$out/python/options" <<'END'
from npu_bridge.npu_init import *
c = NPURunConfig(iterations_per_loop=10, session_config={'a': [1]})  # NPURunConfig
op.parameter_map["precision_mode"].s = b"x" + \
    Rb'y'
END
