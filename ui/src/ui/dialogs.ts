import { computed, ref } from 'vue';

const open = ref(0);

/** True while a dialog is open: bare keys are off then. */
export const dialogIsOpen = computed(() => open.value > 0);

export function dialogOpened(): void {
  open.value += 1;
}

export function dialogClosed(): void {
  open.value = Math.max(0, open.value - 1);
}
