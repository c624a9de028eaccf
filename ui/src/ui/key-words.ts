const CAPS: Readonly<Record<string, string>> = {
  shift: 'Shift',
  alt: 'Alt',
  enter: 'Enter',
  escape: 'Esc',
  arrowdown: '↓',
  arrowup: '↑',
  arrowleft: '←',
  arrowright: '→',
  ' ': 'Space',
};

/** Whether this machine's keyboard has a Command key. */
export function hasCommandKey(platform = navigator.platform): boolean {
  return /mac|iphone|ipad/i.test(platform);
}

/** The caps to show for a key of the map: "mod+k" is Ctrl and K, "g b" is g and then b. */
export function keyWords(keys: string, command = hasCommandKey()): string[] {
  return keys.split(' ').flatMap((chord) => {
    const parts = chord === '+' ? ['+'] : chord.split('+');
    return parts.map((part) => {
      if (part === 'mod') return command ? '⌘' : 'Ctrl';
      const cap = CAPS[part.toLowerCase()];
      if (cap !== undefined) return cap;
      return parts.length > 1 ? part.toUpperCase() : part;
    });
  });
}
