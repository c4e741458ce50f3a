Bwpj
location
raw_f32.pbj
offset4j
length8