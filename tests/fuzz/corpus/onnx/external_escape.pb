Bwpj
locationa/../../onnx