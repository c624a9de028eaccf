import { describe, expect, it } from 'vitest';
import { allowFault } from './allow';

describe('allowFault', () => {
  it.each([
    'Registry.example:443', '*.example.com:443', '**.example.com:443', 'udp:time.example:123', 'udp time.example:123',
    'tcp:registry.example:22', '[2001:db8::1]:443', 'udp:[2001:db8::/32]:123', '10.0.0.0/8:5432', 'udp:443',
  ])('lets %j through', (item) => {
    expect(allowFault(item)).toBeNull();
  });

  it.each([
    '', ':', 'registry.example', 'registry.example:', ':443', 'registry.example:0', 'registry.example:65536', 'registry.example:+443',
    'registry.example:https', '2001:db8::1:443', 'sctp:registry.example:443', '[2001:db8::1]', '[2001:db8::1]443', '[registry.example]:443',
    'https://registry.example:443', 'registry example:443', '*:443', 'a.*.b:443', 'a..b:443', 'a/b:443', 'registry.example:53', 'udp:a.example:443',
  ])('says what is wrong with %j', (item) => {
    expect(allowFault(item)).toMatch(/\.$/);
  });
});
