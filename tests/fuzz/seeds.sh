#!/usr/bin/env bash
# Makes the seeds of the fuzz targets, small files of each kind: tests/fuzz/seeds.sh KEEL FOLDER
# KEEL is the tool; each target's seeds go to FOLDER/<target>.
set -eu
keel=$1
out=$2
rm -rf "$out"
mkdir -p "$out"/{json,graph,safetensors,npy,idx,csv,onnx}

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

"$keel" export --load "$out/safetensors/saved" --out "$out/onnx/model"
"$keel" export --load "$out/safetensors/saved" --out "$out/onnx/gradient" --train --batch 2
