" SPDX-License-Identifier: Apache-2.0
" Syntax of Heald files for Vim and Neovim. Copy it to ~/.vim/syntax/ (~/.config/nvim/syntax/) and add to your vimrc:
"   autocmd BufNewFile,BufRead *.hd setfiletype heald
if exists("b:current_syntax")
  finish
endif

syntax keyword healdDeclaration op kernel fn rule graph
syntax keyword healdStatement let break continue return launch stage tune require role one
syntax keyword healdConditional if else when
syntax keyword healdRepeat for in while unroll parallel
syntax keyword healdStorage shared local core_local workspace
syntax keyword healdClause implements onnx on with bijective serial class alias prefer layout worth over align step static const
syntax keyword healdBoolean true false
syntax keyword healdForm sum prod max min any all fold scan mapping spatial repeat auto_map
syntax keyword healdType bool int str i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 f32x4 mbarrier
syntax match healdStatement "\<var\ze\s\+\h"
syntax match healdFunction "\<\h\w*\ze\s*("
syntax match healdName "\%(\<\%(op\|kernel\|fn\|rule\|graph\|stage\)\s\+\)\@<=\h\w*"
syntax match healdNumber "\<\d[0-9_]*\%(\.\d[0-9_]*\)\?\%([eE][-+]\?\d\+\)\?\>"
syntax match healdNumber "\<0x[0-9a-fA-F_]\+\>"
syntax match healdNumber "\<0b[01_]\+\>"
syntax match healdOperator "\.\.\.\|\.\.\|=>\|->\|:+\|[-+*/%<>=!&|^~@]"
syntax match healdEscape "\\\%([nt\\"]\|x\x\x\)" contained
syntax match healdHole "{[^}]*}" contained
syntax region healdString start=+"+ skip=+\\.+ end=+"+ oneline contains=healdEscape,healdHole
syntax keyword healdTodo TODO FIXME contained
syntax match healdComment "//.*$" contains=healdTodo,@Spell

highlight default link healdDeclaration Keyword
highlight default link healdStatement Statement
highlight default link healdConditional Conditional
highlight default link healdRepeat Repeat
highlight default link healdStorage StorageClass
highlight default link healdClause PreProc
highlight default link healdBoolean Boolean
highlight default link healdForm Function
highlight default link healdType Type
highlight default link healdFunction Function
highlight default link healdName Identifier
highlight default link healdNumber Number
highlight default link healdOperator Operator
highlight default link healdEscape SpecialChar
highlight default link healdHole Special
highlight default link healdString String
highlight default link healdTodo Todo
highlight default link healdComment Comment

setlocal commentstring=//\ %s
let b:current_syntax = "heald"
