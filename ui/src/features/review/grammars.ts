// The highlighter and its grammars, each read when a file of its kind is first shown: all of them together are more
// code than the rest of the window.

import type { LanguageFn } from 'highlight.js';
import { createLowlight } from 'lowlight';
import type { Token } from './syntax';

/** A language by its name with the highlighter: the endings of its files, and what may stand inside of it. */
interface Language {
  readonly load: () => Promise<{ default: LanguageFn }>;
  readonly endings: string;
  readonly inside?: readonly string[];
}

const LANGUAGES: Readonly<Record<string, Language>> = {
  bash: { load: () => import('highlight.js/lib/languages/bash'), endings: 'sh bash zsh' },
  c: { load: () => import('highlight.js/lib/languages/c'), endings: 'c h' },
  clojure: { load: () => import('highlight.js/lib/languages/clojure'), endings: 'clj cljs cljc edn' },
  cmake: { load: () => import('highlight.js/lib/languages/cmake'), endings: 'cmake' },
  cpp: { load: () => import('highlight.js/lib/languages/cpp'), endings: 'cpp cc cxx c++ hpp hh hxx h++' },
  csharp: { load: () => import('highlight.js/lib/languages/csharp'), endings: 'cs' },
  css: { load: () => import('highlight.js/lib/languages/css'), endings: 'css' },
  dart: { load: () => import('highlight.js/lib/languages/dart'), endings: 'dart' },
  diff: { load: () => import('highlight.js/lib/languages/diff'), endings: 'diff patch' },
  dockerfile: { load: () => import('highlight.js/lib/languages/dockerfile'), endings: 'dockerfile', inside: ['bash'] },
  elixir: { load: () => import('highlight.js/lib/languages/elixir'), endings: 'ex exs' },
  erlang: { load: () => import('highlight.js/lib/languages/erlang'), endings: 'erl hrl' },
  go: { load: () => import('highlight.js/lib/languages/go'), endings: 'go' },
  gradle: { load: () => import('highlight.js/lib/languages/gradle'), endings: 'gradle' },
  graphql: { load: () => import('highlight.js/lib/languages/graphql'), endings: 'graphql gql' },
  groovy: { load: () => import('highlight.js/lib/languages/groovy'), endings: 'groovy' },
  haskell: { load: () => import('highlight.js/lib/languages/haskell'), endings: 'hs' },
  ini: { load: () => import('highlight.js/lib/languages/ini'), endings: 'ini toml cfg conf' },
  java: { load: () => import('highlight.js/lib/languages/java'), endings: 'java' },
  javascript: { load: () => import('highlight.js/lib/languages/javascript'), endings: 'js jsx mjs cjs', inside: ['xml', 'css'] },
  json: { load: () => import('highlight.js/lib/languages/json'), endings: 'json jsonc json5' },
  julia: { load: () => import('highlight.js/lib/languages/julia'), endings: 'jl' },
  kotlin: { load: () => import('highlight.js/lib/languages/kotlin'), endings: 'kt kts' },
  latex: { load: () => import('highlight.js/lib/languages/latex'), endings: 'tex sty' },
  less: { load: () => import('highlight.js/lib/languages/less'), endings: 'less' },
  lua: { load: () => import('highlight.js/lib/languages/lua'), endings: 'lua' },
  makefile: { load: () => import('highlight.js/lib/languages/makefile'), endings: 'makefile mk mak' },
  markdown: { load: () => import('highlight.js/lib/languages/markdown'), endings: 'md markdown', inside: ['xml'] },
  nix: { load: () => import('highlight.js/lib/languages/nix'), endings: 'nix' },
  objectivec: { load: () => import('highlight.js/lib/languages/objectivec'), endings: 'm mm' },
  ocaml: { load: () => import('highlight.js/lib/languages/ocaml'), endings: 'ml mli' },
  perl: { load: () => import('highlight.js/lib/languages/perl'), endings: 'pl pm' },
  php: { load: () => import('highlight.js/lib/languages/php'), endings: 'php' },
  powershell: { load: () => import('highlight.js/lib/languages/powershell'), endings: 'ps1 psm1 psd1' },
  properties: { load: () => import('highlight.js/lib/languages/properties'), endings: 'properties' },
  protobuf: { load: () => import('highlight.js/lib/languages/protobuf'), endings: 'proto' },
  python: { load: () => import('highlight.js/lib/languages/python'), endings: 'py pyi pyw' },
  r: { load: () => import('highlight.js/lib/languages/r'), endings: 'r' },
  ruby: { load: () => import('highlight.js/lib/languages/ruby'), endings: 'rb gemspec rake' },
  rust: { load: () => import('highlight.js/lib/languages/rust'), endings: 'rs' },
  scala: { load: () => import('highlight.js/lib/languages/scala'), endings: 'scala sc' },
  scss: { load: () => import('highlight.js/lib/languages/scss'), endings: 'scss sass' },
  sql: { load: () => import('highlight.js/lib/languages/sql'), endings: 'sql' },
  swift: { load: () => import('highlight.js/lib/languages/swift'), endings: 'swift' },
  typescript: { load: () => import('highlight.js/lib/languages/typescript'), endings: 'ts tsx mts cts', inside: ['xml', 'css'] },
  vim: { load: () => import('highlight.js/lib/languages/vim'), endings: 'vim' },
  xml: { load: () => import('highlight.js/lib/languages/xml'), endings: 'xml html htm xhtml svg vue svelte plist rss xsl', inside: ['javascript', 'css'] },
  yaml: { load: () => import('highlight.js/lib/languages/yaml'), endings: 'yml yaml' },
};

const BY_ENDING: ReadonlyMap<string, string> = new Map(
  Object.entries(LANGUAGES).flatMap(([name, { endings }]) => endings.split(' ').map((ending): [string, string] => [ending, name])),
);

/** Turns text into the tokens of each of its lines. */
export type Grammar = (text: string) => Token[][];

interface Marked {
  readonly type: string;
  readonly value?: string;
  readonly children?: readonly Marked[];
  readonly properties?: { readonly className?: unknown };
}

/** A tree of marked text as lines of tokens: the nearest mark counts, and a line end is part of none. */
export function linesOf(root: Marked): Token[][] {
  let line: Token[] = [];
  const lines = [line];
  const walk = (node: Marked, kind: string | null): void => {
    if (node.type === 'text') {
      for (const [at, text] of (node.value ?? '').split('\n').entries()) {
        if (at > 0) lines.push((line = []));
        if (text !== '') line.push({ text, kind });
      }
      return;
    }
    const names = node.properties?.className;
    const name: unknown = Array.isArray(names) ? names[0] : null;
    const own = typeof name === 'string' ? name.replace(/^hljs-/, '') : kind;
    for (const child of node.children ?? []) walk(child, own);
  };
  walk(root, null);
  return lines;
}

/** The grammar for files of an ending; absent where there is none. */
export async function grammarOf(ending: string): Promise<Grammar | null> {
  const name = BY_ENDING.get(ending);
  if (name === undefined) return null;
  const wanted = [name, ...(LANGUAGES[name]?.inside ?? [])];
  const found = await Promise.all(wanted.map(async (one) => [one, (await LANGUAGES[one]?.load())?.default] as const));
  const highlighter = createLowlight();
  for (const [one, grammar] of found) if (grammar) highlighter.register(one, grammar);
  return (text) => linesOf(highlighter.highlight(name, text));
}
