// The calls that a card makes, for tests that answer in the engine's place:
// `vi.mock('@/ipc/call', () => import('./calls.fixture'))`. Nothing that makes such a call is imported here.

import { vi } from 'vitest';

/** Every call that a card makes. */
export const call = {
  blockAmend: vi.fn(),
  blockDeny: vi.fn(),
  blockShow: vi.fn(),
  blockList: vi.fn(),
  undo: vi.fn(),
  runStop: vi.fn(),
  runEvents: vi.fn(),
};
