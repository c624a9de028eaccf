import { readonly, ref } from 'vue';
import type { Tone } from '@/lib/state';

export interface Toast {
  tone: Tone;
  text: string;
  action?: { label: string; run: () => void };
}
export interface ShownToast extends Toast {
  id: number;
}

const MOST = 4;
const STAYS_MS = 8000;
const shown = ref<ShownToast[]>([]);
let last = 0;

function dismiss(id: number): void {
  shown.value = shown.value.filter((toast) => toast.id !== id);
}

/** Short notices at the edge of the window. Bad ones and those with a button stay until they are closed. */
export function useToasts() {
  return {
    shown: readonly(shown),
    dismiss,
    show(toast: Toast): number {
      last += 1;
      const id = last;
      shown.value = [...shown.value.slice(1 - MOST), { ...toast, id }];
      if (toast.tone !== 'bad' && !toast.action) setTimeout(() => dismiss(id), STAYS_MS);
      return id;
    },
  };
}
